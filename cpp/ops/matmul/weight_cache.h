// Copies of weights in the order in which kernels read them.
#pragma once

#include <memory>

#include "autograd/strided.h"
#include "autograd/weight_state.h"
#include "core/locks.h"

namespace qkv::ops {

// A copy of one weight, made at its first use and again when the weight has changed. Threads that find none at the same
// time make one each; the last is kept.
class WeightCache {
 public:
  // make(packed weight) gives the copy.
  template <class Make> Array get(const Array& weight, Make make) const {
    if (const auto kept = kept_.get(); kept && kept->of.is(weight)) return kept->copy;
    const WeightState state(weight);  // before it is read
    const Array copy = make(packed(weight));
    kept_.set(std::make_shared<const Entry>(Entry{state, copy}));
    return copy;
  }

 private:
  struct Entry {
    WeightState of;
    Array copy;
  };
  mutable Published<Entry> kept_;
};

}  // namespace qkv::ops
