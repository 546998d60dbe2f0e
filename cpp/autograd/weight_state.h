// A weight as it was at one moment, for what is made of it once.
#pragma once

#include <cstddef>
#include <memory>

#include "core/array.h"

namespace qkv {

// Where its numbers are elsewhere (`away`), its address is not looked at.
class WeightState {
 public:
  explicit WeightState(const Array& weight, bool away = false)
      : buffer_(weight.buffer()),
        offset_(offset(weight, away)),
        shape_(weight.shape()),
        packed_(weight.is_packed()),
        strides_(packed_ ? Strides() : weight.strides()),
        version_(weight.version()) {}
  // Whether the weight is the same and has not changed, as far as that can be told.
  bool is(const Array& weight, bool away = false) const {
    const auto buffer = buffer_.lock();
    return buffer && buffer == weight.buffer() && buffer->tells_changes() && offset_ == offset(weight, away) &&
           shape_ == weight.shape() && (weight.is_packed() ? packed_ : !packed_ && strides_ == weight.strides()) &&
           version_ == weight.version();
  }

 private:
  // In bytes, from the first of its memory; a weight whose numbers are elsewhere begins there.
  static std::ptrdiff_t offset(const Array& weight, bool away) {
    return away ? 0 : static_cast<const char*>(weight.first()) - static_cast<const char*>(weight.buffer()->data());
  }

  std::weak_ptr<Buffer> buffer_;
  std::ptrdiff_t offset_;
  Shape shape_;
  bool packed_;
  Strides strides_;  // unless it is packed
  std::uint64_t version_;
};

}  // namespace qkv
