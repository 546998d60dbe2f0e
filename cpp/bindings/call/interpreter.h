// Python's lock (GIL), given back while C++ computes and taken for what Python does, and calls of Python's functions.
//
// A thread that asks for the lock of an interpreter that is ending does not get it: until Python 3.13 the thread is
// told to end, by an exception of the C library that would pass through destructors that must not throw and that touch
// Python's objects. Here it waits for the end of the process, as Python 3.14 lets it.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__) && defined(__GLIBCXX__)
#include <cxxabi.h>
#include <unistd.h>
#endif

#include "core/noncopyable.h"
#include "core/parallel.h"

namespace qkv::bindings {

template <class Take> void take_gil(Take take) {
#if defined(__linux__) && defined(__GLIBCXX__)
  try {
    take();
  } catch (abi::__forced_unwind&) {
    while (true) pause();
  }
#else
  take();
#endif
}

// What Python knows this thread by, while it has given the lock back.
inline thread_local PyThreadState* waiting_state = nullptr;

// Threads that compute while others of Python run, and changes that wait for them to end. Python's lock guards both;
// without it, `computing` is a guess.
inline std::atomic<int> computing{0};
inline int changing = 0;
// What of them is this thread's: more than one where a signal's handler computes.
inline thread_local int own_computing = 0, own_changing = 0;

inline void let_others_run() {
  PyThreadState* state = PyEval_SaveThread();
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  take_gil([&] { PyEval_RestoreThread(state); });
}

inline void begin_computing() {
  while (changing > own_changing && own_computing == 0) let_others_run();
  ++computing;
  ++own_computing;
}

inline void end_computing() {
  --computing;
  --own_computing;
}

// While one lives, changes wait, as they do while the lock is given back.
struct Computing : NonCopyable {
  Computing() { begin_computing(); }
  ~Computing() { end_computing(); }
};

// While one lives, this thread is in the midst of a computation that does not know what is called.
struct Interrupting : NonCopyable {
  Interrupting() { ++computing, ++own_computing; }
  ~Interrupting() { end_computing(); }
};

// While one lives, no other thread is inside a computation: for changes of what computations read without a lock, such
// as the dtype of a parameter. Waits until those that have begun end or call Python; later ones wait for the change.
class ExclusiveAccess : NonCopyable {
 public:
  ExclusiveAccess() {
    // Threads that compute while the interpreter ends do not come back.
    while (computing > own_computing && Py_IsInitialized()) {
      let_others_run();
      if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    }
  }

 private:
  struct Announced {
    Announced() { ++changing, ++own_changing; }
    ~Announced() { --changing, --own_changing; }
  } announced_;
};

// While one lives, other threads of Python run.
class GilReleased : NonCopyable {
 public:
  GilReleased() {
    begin_computing();
    waiting_state = PyEval_SaveThread();
    begin_operation();
  }
  ~GilReleased() {
    take_gil([] { PyEval_RestoreThread(std::exchange(waiting_state, nullptr)); });
    end_computing();
  }
};

// While one lives, this thread may use Python's objects.
class GilHeld : NonCopyable {
 public:
  GilHeld() : was_released_(waiting_state != nullptr) {
    take_gil([this] {
      // Restoring is safe even when the interpreter has ended and its state is gone; looking for a state is not.
      if (was_released_) PyEval_RestoreThread(std::exchange(waiting_state, nullptr));
      else held_.emplace();  // the lock is held, or Python has never seen this thread
    });
  }
  ~GilHeld() {
    if (was_released_) waiting_state = PyEval_SaveThread();
  }

 private:
  const bool was_released_;
  std::optional<pybind11::gil_scoped_acquire> held_;
};

// The same in the midst of a computation, for methods that a Python subclass may define: they may wait for a thread
// that makes a change.
class InPython : NonCopyable {
 public:
  InPython() : paused_(own_computing > 0) {
    if (paused_) end_computing();
  }
  ~InPython() {
    if (paused_) begin_computing();
  }

 private:
  const GilHeld held_;
  const bool paused_;
};

// Keeps a Python object alive from C++, where the lock may not be held when it is let go.
inline std::shared_ptr<void> keep_alive(pybind11::handle object) {
  object.inc_ref();
  return {object.ptr(), [](void* p) {
            if (!Py_IsInitialized()) return;
            const GilHeld held;
            pybind11::handle(static_cast<PyObject*>(p)).dec_ref();
          }};
}

// What `Base` asks of an object of Python's.
template <class Base> class OfPython : public Base {
 public:
  explicit OfPython(pybind11::handle object) : object_(keep_alive(object)) {}
  pybind11::handle object() const { return static_cast<PyObject*>(object_.get()); }

 private:
  const std::shared_ptr<void> object_;
};

template <class F> decltype(auto) without_gil(F&& f) {
  const GilReleased released;
  return f();
}

// The same for work that passes over so many numbers. A few thousand take less than what another thread could do with
// the time, and giving the interpreter away and taking it back costs as much as adding a hundred.
template <class F> decltype(auto) without_gil(Index numbers, F&& f) {
  constexpr Index kWorthIt = 4096;
  if (numbers <= kWorthIt) return f();
  return without_gil(std::forward<F>(f));
}

// A function of Python's that the package has registered under this name (callbacks.cpp), and what registers them.
pybind11::object callback(const char* name);
void register_callbacks(const pybind11::kwargs& callbacks);
// For an error's text: the name of its type; numbers, strings and short tuples as they are, of anything else the type.
// Never a content.
std::string type_name(pybind11::handle value);
std::string described(pybind11::handle value);

// function(*arguments, **keywords). A thread that loses Python's lock in there because the interpreter ends goes no
// further: what lies between here and its first frame cannot be destroyed without the lock.
inline pybind11::object call_python(pybind11::handle function, const pybind11::tuple& arguments,
                                    pybind11::handle keywords = {}) {
  PyObject* result = nullptr;
  take_gil([&] { result = PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr()); });
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

}  // namespace qkv::bindings
