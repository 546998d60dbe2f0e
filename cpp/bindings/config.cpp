// Threads, instruction sets, memory, and what a Python user does to stop long work.
#if defined(__linux__)
#include <dlfcn.h>
#endif

#include <atomic>

#include "bindings/bindings.h"
#include "bindings/call/errors.h"
#include "bindings/call/interpreter.h"
#include "bindings/values/convert.h"
#include "bindings/values/operation.h"
#include "core/buffer.h"
#include "core/cpu.h"
#include "core/locks.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/reproducible.h"
#include "kernels/kernels.h"
#include "kernels/matmul/blas.h"

namespace qkv::bindings {
namespace {

// What a signal handler raised on the main thread while C++ was working, until the call returns. It is never destroyed:
// after the interpreter nothing may free a Python object.
std::exception_ptr& raised() {
  static auto* const kept = new std::exception_ptr;
  return *kept;
}

// Python runs the handlers of signals on this thread alone; the others need not ask for its lock.
std::atomic<unsigned long> main_thread{0};

bool interrupt_requested() {
  if (PyThread_get_thread_ident() != main_thread.load(std::memory_order_relaxed)) return false;
  const GilHeld held;
  const Interrupting handlers;
  if (PyErr_CheckSignals() == 0) return false;
  raised() = std::make_exception_ptr(py::error_already_set());
  return true;
}

// Python's lock keeps others from beginning; of those that compute without it, and of what this thread's own handler
// of a signal interrupts, nobody knows what they read.
bool change_if_alone(const std::function<void()>& change) {
  if (computing > 1) return false;
  const GilHeld held;
  if (computing > own_computing || own_computing > 1) return false;
  change();
  return true;
}

// What is made at its first use is made now: a fork while another thread made it would leave it half made in the child.
void make_early() {
  try {
    num_threads();
    kernels::kernels<float>();
    kernels::kernels<double>();
  } catch (const ValueError&) {  // a variable of the environment; told at the first use
  }
  default_generator();
}

bool borrow_threads_of(const std::string& library) {
#if defined(__linux__)
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);  // never closed: its threads stay
  void* const run = loaded == nullptr ? nullptr : dlsym(loaded, "GOMP_parallel");
  if (run != nullptr) borrow_threads(reinterpret_cast<RunOnThreads>(run));
  return run != nullptr;
#else
  (void)library;
  return false;
#endif
}

}  // namespace

void bind_config(Functions& m) {
  kernels::initialise_blas();
  make_early();
  // Python's module, where it is not loaded yet, will take this thread for the main one.
  const auto modules = py::module_::import("sys").attr("modules").cast<py::dict>();
  main_thread = modules.contains("threading")
                    ? modules["threading"].attr("main_thread")().attr("ident").cast<unsigned long>()
                    : PyThread_get_thread_ident();
  at_fork_in_child([] {
    main_thread = PyThread_get_thread_ident();
    computing = own_computing;  // the other threads are not in the child
    changing = own_changing;
  });
  set_interrupt_check(interrupt_requested);
  set_change_alone(change_if_alone);

  // ValueError and IndexError are of the standard library's classes, which set_error knows.
  translate_errors([](std::exception_ptr p) {
    try {
      std::rethrow_exception(p);
    } catch (const Interrupted&) {
      const bool here = PyThread_get_thread_ident() == main_thread.load(std::memory_order_relaxed);
      if (here && raised()) std::rethrow_exception(std::exchange(raised(), nullptr));
      PyErr_SetNone(PyExc_KeyboardInterrupt);
    } catch (const TypeError& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const NotImplemented& error) {
      PyErr_SetString(PyExc_NotImplementedError, error.what());
    } catch (const std::bad_alloc& error) {
      const bool has_text = dynamic_cast<const MemoryError*>(&error) != nullptr;
      PyErr_SetString(PyExc_MemoryError, has_text ? error.what() : "qkv: there is not enough memory");
    } catch (const std::length_error&) {  // a std::vector's
      PyErr_SetString(PyExc_MemoryError, "qkv: a size is too large for any memory");
    }
  });

  // Without the GIL, because it waits for a job that may be asking for it, to look for an interrupt.
  m.def("set_num_threads(n)", [](int n) { without_gil([&] { set_num_threads(n); }); });
  m.def("get_num_threads", &num_threads);
  m.def("limit_threads(n)", &limit_threads);
  m.def("borrow_threads(library)",
        "Have the threads of an OpenMP library that is loaded do the work that has a limit; whether it is one.",
        borrow_threads_of);
  m.def("set_reproducible(on)", &set_reproducible);
  m.def("get_reproducible", &reproducible);
  m.def("cached_bytes", &cached_bytes);
  // Of the memory that a Tensor keeps, of which it may be a small part.
  m.def("storage_bytes", [](const Tensor& t) { return t.data().buffer()->bytes(); });
  m.def("empty_cache", &empty_cache);
  m.def("config", [] {
    py::dict d;
    d["version"] = QKV_VERSION;
    d["instruction_set"] = name(chosen_isa());
    d["best_instruction_set"] = name(best_isa());
    d["blas"] = kernels::blas_config();
    d["blas_core"] = kernels::blas_core();
    d["threads"] = num_threads();
    d["reproducible"] = reproducible();
    d["fused_multiply_add"] = has_fused_products();
#if defined(__clang__)
    d["compiler"] = "Clang " __clang_version__;
#else
    d["compiler"] = "GCC " __VERSION__;
#endif
    return d;
  });
}

}  // namespace qkv::bindings
