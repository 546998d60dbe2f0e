// Errors that Python code puts into words (python/qkv/_errors.py): which names fit no signature, what was meant.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string>

namespace qkv::bindings {

// Replaces the error that is set and that no line of Python has raised by a TypeError with the text that `words` gives;
// None, or a failure of its own, leaves the error.
template <class Words> void replace_type_error(Words words) {
  pybind11::error_scope scope;
  if (scope.trace != nullptr && scope.trace != Py_None) return;
  try {
    const pybind11::object text = words();
    if (text.is_none()) return;
    Py_XDECREF(scope.type);
    Py_XDECREF(scope.value);
    Py_XDECREF(scope.trace);
    PyErr_SetObject(PyExc_TypeError, text.ptr());
    PyErr_Fetch(&scope.type, &scope.value, &scope.trace);
  } catch (const std::exception&) {  // no memory for words, or the interpreter ends
    PyErr_Clear();
  }
}

// "'Linear' object has no attribute 'wieght'; did you mean weight?" as an AttributeError.
[[noreturn]] void fail_attribute(pybind11::handle object, pybind11::handle name);

}  // namespace qkv::bindings
