// Python's lock (GIL), given back while C++ computes and taken for what Python does.
//
// Whoever asks the lock of an interpreter that is ending does not get it: until Python 3.13 the thread is told to end,
// by an exception of the C library that would pass through destructors that must not throw and that touch Python's
// objects. Here it waits for the end of the process, as Python 3.14 lets it.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "core/parallel.h"

namespace qkv::bindings {

template <class Take> void take_gil(Take take) {
#if defined(__GLIBCXX__)
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

// While one lives, other threads of Python run.
class GilReleased {
 public:
  GilReleased() {
    waiting_state = PyEval_SaveThread();
    begin_operation();
  }
  ~GilReleased() {
    take_gil([] { PyEval_RestoreThread(std::exchange(waiting_state, nullptr)); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
};

// While one lives, this thread may use Python's objects.
class GilHeld {
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
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  const bool was_released_;
  std::optional<pybind11::gil_scoped_acquire> held_;
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

}  // namespace qkv::bindings
