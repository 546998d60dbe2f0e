#include "bindings/call/errors.h"

#include <pybind11/pybind11.h>

#include <stdexcept>

namespace py = pybind11;

namespace qkv::bindings {

static void (*translate_core)(std::exception_ptr) = std::rethrow_exception;

void translate_errors(void (*translate)(std::exception_ptr)) { translate_core = translate; }

void set_error() {
  const auto set = [](PyObject* kind, const std::exception& error) { PyErr_SetString(kind, error.what()); };
  try {
    translate_core(std::current_exception());
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::overflow_error& error) {
    set(PyExc_OverflowError, error);
  } catch (const std::out_of_range& error) {
    set(PyExc_IndexError, error);
  } catch (const std::invalid_argument& error) {
    set(PyExc_ValueError, error);
  } catch (const std::domain_error& error) {
    set(PyExc_ValueError, error);
  } catch (const std::range_error& error) {
    set(PyExc_ValueError, error);
  } catch (const std::exception& error) {
    set(PyExc_RuntimeError, error);
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "qkv: an exception of no known class");
  }
}

}  // namespace qkv::bindings
