// Locks that a fork finds free, and what several threads share by them.
//
// The child of a fork has one thread; a lock that another thread held would stay locked in it for ever. So one handler
// takes every Mutex before a fork and gives it back after it, in both processes. The forking thread holds Python's
// lock. Hence the rules for a thread that holds a Mutex: it does not wait for Python's lock, does not work on the pool,
// and takes no other Mutex but one of a later rank. One exemption: an optimizer's step (nn/optim.cpp) works on the pool
// under a Mutex of rank `outer`. It asks for no interrupt, so no worker waits for Python's lock, and a fork waits for
// the end of the step.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/noncopyable.h"
namespace qkv {

class Mutex : NonCopyable {
 public:
  // The order in which a fork takes them: first what is held while others are waited for, last what is taken inside.
  enum class Rank { outer, single, inner };
  explicit Mutex(Rank rank = Rank::single);
  ~Mutex();

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct Registry;
  std::mutex mutex_;
  const Rank rank_;
  Mutex *before_ = nullptr, *behind_ = nullptr;  // of all there are, in the order in which a fork takes them
};

using Lock = std::lock_guard<Mutex>;

// While one lives, a fork waits: for calls of a library that has locks of its own, which the child would find locked.
// Many threads may have one at once. A thread that has one neither forks nor waits for a Mutex or for Python's lock.
class NoFork : NonCopyable {
 public:
  NoFork();
  ~NoFork();
};

// For a few instructions on an object at this address. Several objects may share one.
Mutex& mutex_of(const void* object);

// In the child of every fork, before it continues.
void at_fork_in_child(void (*function)());
// How many forks led to this process.
unsigned forks();

// Runs `change` and returns true if, now, no thread but this one computes: for changes of what computations read
// without a lock. Else false, at once.
bool change_alone(const std::function<void()>& change);
// How that is done; without, never.
void set_change_alone(bool (*function)(const std::function<void()>&));

// One immutable value that threads read and replace as a whole.
template <class T> class Published {
 public:
  Published() = default;
  std::shared_ptr<const T> get() const {
    const Lock lock(mutex_of(this));
    return value_;
  }
  void set(std::shared_ptr<const T> value) {
    const Lock lock(mutex_of(this));
    value_.swap(value);  // the old one ends with `value`, after the lock is released
  }
  // Unless another thread has replaced `before` already.
  void replace(const std::shared_ptr<const T>& before, std::shared_ptr<const T> value) {
    const Lock lock(mutex_of(this));
    if (value_ == before) value_.swap(value);
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace qkv
