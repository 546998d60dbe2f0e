// What backward passes leave for a leaf.
#pragma once

#include <atomic>
#include <memory>

#include "core/array.h"
#include "core/noncopyable.h"
#include "core/parallel.h"

namespace qkv {

struct TensorImpl;
class Tensor;

// One Tensor, from the first pass on until it is replaced: later passes add into its memory, so an owner of it sees
// the sum. It may be changed in place, too. Several threads may add at once, while others read or replace it.
class LeafGradient {
 public:
  LeafGradient() = default;
  LeafGradient(const LeafGradient& other) { set(other.get()); }
  Array get() const;  // not defined before the first backward
  Tensor tensor() const;
  void set(Array array);
  void share(std::shared_ptr<TensorImpl> tensor);  // this one itself, with its history
  void add(Array part);                            // packed
  // Unless another thread has changed what get() gave as `before`: then false.
  bool replace(const Array& before, Array array);

  // While one lives, no other thread adds. It is kept for a pass through memory, without a Mutex, as that pass may work
  // on the pool; it is not asked for while another one lives on this thread.
  class Quiet : NonCopyable {
   public:
    explicit Quiet(LeafGradient& gradient);
    ~Quiet() { gradient_.quiet_.store(0, std::memory_order_release); }

   private:
    const Uninterrupted whole_;
    LeafGradient& gradient_;
  };

 private:
  std::shared_ptr<TensorImpl> tensor_;
  std::atomic<unsigned> quiet_{0};  // 0, or 1 and how many forks had led to this process: in the child nobody has it
};

}  // namespace qkv
