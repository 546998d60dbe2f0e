// Long work on one object, a thread after the other, that can be interrupted.
#pragma once

#include <thread>

#include "core/locks.h"
#include "core/noncopyable.h"

namespace qkv {

// A fork takes every Mutex while it holds Python's lock, which the handler of a signal needs: so a turn gives the Mutex
// back for the time of a pause, in which nobody else's turn begins.
class Turns {
 public:
  // Waits for the end of another thread's turn. The handler of a signal that came in a pause has a turn within it.
  void begin();
  void end() { mutex_.unlock(); }
  // Within a turn: throws Interrupted if the work is to stop.
  void pause();

 private:
  Mutex mutex_;
  std::thread::id paused_;     // the thread in whose turn there is a pause
  unsigned paused_forks_ = 0;  // and forks() then: in the child of one that thread does not exist
};

class Turn : NonCopyable {
 public:
  explicit Turn(Turns& turns) : turns_(turns) { turns_.begin(); }
  ~Turn() { turns_.end(); }

 private:
  Turns& turns_;
};

}  // namespace qkv
