// Copies of weights in the order in which kernels read them.
#pragma once

#include <memory>

#include "autograd/strided.h"
#include "core/locks.h"

namespace qkv::ops {

// A weight as it was at one moment.
class WeightState {
 public:
  explicit WeightState(const Array& weight)
      : buffer_(weight.buffer()),
        at_(weight.first()),
        shape_(weight.shape()),
        packed_(weight.is_packed()),
        strides_(packed_ ? Strides() : weight.strides()),
        version_(weight.version()) {}
  // Whether the weight is the same and has not changed. Changes of borrowed memory are not seen.
  bool is(const Array& weight) const {
    const auto buffer = buffer_.lock();
    return buffer && buffer == weight.buffer() && !buffer->borrowed() && at_ == weight.first() &&
           shape_ == weight.shape() && (weight.is_packed() ? packed_ : !packed_ && strides_ == weight.strides()) &&
           version_ == weight.version();
  }

 private:
  std::weak_ptr<Buffer> buffer_;
  const void* at_;
  Shape shape_;
  bool packed_;
  Strides strides_;  // unless it is packed
  std::uint64_t version_;
};

// A copy of one weight, made at its first use and again when the weight has changed. Threads that find none at the same
// time make one each; the last is kept.
class WeightCache {
 public:
  // make(packed weight) gives the copy; of one that can have several forms, `form` tells which.
  template <class Make> Array get(const Array& weight, Make make, int form = 0) const {
    if (const auto kept = kept_.get(); kept && kept->form == form && kept->of.is(weight)) return kept->copy;
    const WeightState state(weight);  // before it is read
    const Array copy = make(packed(weight));
    kept_.set(std::make_shared<const Entry>(Entry{state, form, copy}));
    return copy;
  }

 private:
  struct Entry {
    WeightState of;
    int form;
    Array copy;
  };
  mutable Published<Entry> kept_;
};

}  // namespace qkv::ops
