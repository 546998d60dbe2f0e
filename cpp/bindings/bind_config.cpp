// Threads, instruction sets, memory, and what a Python user does to stop long work.
#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "core/batch_invariance.h"
#include "core/buffer.h"
#include "core/cpu.h"
#include "core/parallel.h"
#include "kernels/gemm.h"

namespace qkv::bindings {
namespace {

// What a signal handler raised while C++ was working, until the call returns.
thread_local std::exception_ptr raised;

bool interrupt_requested() {
  const py::gil_scoped_acquire held;
  if (PyErr_CheckSignals() == 0) return false;
  raised = std::make_exception_ptr(py::error_already_set());
  return true;
}

}  // namespace

void bind_config(py::module_& m) {
  kernels::initialise_blas();
  set_interrupt_check(interrupt_requested);

  py::register_exception_translator([](std::exception_ptr p) {
    try {
      std::rethrow_exception(p);
    } catch (const Interrupted&) {
      if (raised) std::rethrow_exception(std::exchange(raised, nullptr));
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const TypeError& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const ValueError& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const IndexError& error) {
      PyErr_SetString(PyExc_IndexError, error.what());
    } catch (const NotImplemented& error) {
      PyErr_SetString(PyExc_NotImplementedError, error.what());
    }
  });

  // Without the GIL, because it waits for a job that may be asking for it, to look for an interrupt.
  m.def("set_num_threads", &set_num_threads, py::arg("n"), py::call_guard<py::gil_scoped_release>());
  m.def("get_num_threads", &num_threads);
  m.def("set_batch_invariant", &set_batch_invariant, py::arg("on"));
  m.def("get_batch_invariant", &batch_invariant);
  m.def("cached_bytes", &cached_bytes);
  m.def("empty_cache", &empty_cache);
  m.def("config", [] {
    py::dict d;
    d["version"] = QKV_VERSION;
    d["instruction_set"] = name(chosen_isa());
    d["best_instruction_set"] = name(best_isa());
    d["blas"] = kernels::blas_config();
    d["blas_core"] = kernels::blas_core();
    d["threads"] = num_threads();
    d["batch_invariant"] = batch_invariant();
#if defined(__clang__)
    d["compiler"] = "Clang " __clang_version__;
#else
    d["compiler"] = "GCC " __VERSION__;
#endif
    return d;
  });
}

}  // namespace qkv::bindings
