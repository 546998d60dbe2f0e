// One pool of threads for everything.
//
// Work is cut into pieces whose borders depend on the work alone, never on the number of threads, so results are the
// same bits for any number of them. The caller works through the pieces itself and waits only for pieces that a
// worker has already begun; a worker that is still asleep is never waited for. A call from inside a piece, and a call
// while another thread uses the pool, run on the calling thread.
#pragma once

#include <memory>
#include <stdexcept>

#include "core/noncopyable.h"
#include "core/types.h"

namespace qkv {

// Thrown out of parallel_for when the interrupt check asked to stop.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

int num_threads();
void set_num_threads(int count);
// The most threads that work of this thread takes, and what the limit was before; at first there is none.
int limit_threads(int count);
inline constexpr int kMostThreads = 1024;
// Calls work(data) on so many threads at once, this one among them: OpenMP's GOMP_parallel.
using RunOnThreads = void (*)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
// Work with a limit is that of a caller with threads of its own, which may still be awake: `run` has them do it, as
// there are not CPUs for these and the pool's. Not in a forked child, where they do not exist.
void borrow_threads(RunOnThreads run);

// `check` is called on the calling thread between pieces and by throw_if_interrupted, at most every 20 ms and not in
// the first 20 ms of an operation; true stops the work.
void set_interrupt_check(bool (*check)());
// An operation begins on this thread: the outermost, of as many as it may be made of.
void begin_operation();
// For long loops, inside pieces or not: throws Interrupted if the check asks to stop, or has asked on another thread
// that works on the same pieces.
void throw_if_interrupted();

// While one lives on this thread, nothing is asked: for work that must not be left half done, such as an optimizer's
// step.
class Uninterrupted : NonCopyable {
 public:
  Uninterrupted();
  ~Uninterrupted();

 private:
  bool before_;
};

namespace detail {
using PieceFunction = void (*)(void* context, Index begin, Index end);
void run_pieces(Index begin, Index end, Index grain, PieceFunction function, void* context);
}  // namespace detail

// Calls body(b, e) for pieces [b, e) of at most `grain` indices that together make up [begin, end), in any order.
template <class Body> void parallel_for(Index begin, Index end, Index grain, Body&& body) {
  if (end <= begin) return;
  if (end - begin <= grain) return body(begin, end);
  using Plain = std::remove_reference_t<Body>;
  detail::run_pieces(
      begin, end, grain < 1 ? 1 : grain, [](void* context, Index b, Index e) { (*static_cast<Plain*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// Indices per piece such that a piece is worth about 30,000 units of work of `cost` each (about 10 us of simple
// arithmetic): waking a thread for less does not pay.
inline Index grain_for(Index cost) {
  const Index grain = 30000 / (cost < 1 ? 1 : cost);
  return grain < 1 ? 1 : grain;
}

}  // namespace qkv
