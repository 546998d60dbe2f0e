// Array: numbers with a shape. Copying an Array shares its memory.
//
// Most are packed: row-major, one number after the other. A view of another's memory may be strided instead: then
// data(), raw() and all that copies bytes throw, so that code which does not ask for packed numbers
// (autograd/strided.h) cannot read others. Axes of size 1 do not count, and an Array without numbers is packed.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/buffer.h"
#include "core/error.h"
#include "core/strides.h"
#include "core/types.h"

namespace qkv {

class Array {
 public:
  Array() = default;  // no array at all: defined() is false
  Array(Shape shape, DType dtype);
  Array(Shape shape, DType dtype, std::shared_ptr<Buffer> buffer, Index offset_bytes = 0);
  Array(Shape shape, Strides strides, DType dtype, std::shared_ptr<Buffer> buffer, void* first);

  static Array zeros(Shape shape, DType dtype);
  // One whose numbers are elsewhere (Buffer::without_memory).
  static Array without_memory(Shape shape, DType dtype);
  template <class Number> static Array full(Shape shape, DType dtype, Number value);

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return static_cast<DType>(key_ & ~kStrided); }
  Index rank() const { return shape_.rank(); }
  Index dim(Index axis) const { return shape_.dim(axis); }
  Index numel() const { return numel_; }
  Index bytes() const { return numel_ * item_size(dtype()); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  void* raw() const {
    if (!is_packed()) fail_strided();
    return data_;
  }
  template <class T> T* data() const {
    if (key_ != static_cast<Key>(dtype_v<T>)) wrong_dtype(dtype_v<T>);
    return static_cast<T*>(data_);
  }

  // For code that walks by strides: where the first number is, the others are relative to it.
  bool is_packed() const { return key_ < kStrided; }
  void* first() const { return data_; }
  template <class T> T* first_as() const {
    if (dtype() != dtype_v<T>) wrong_dtype(dtype_v<T>);
    return static_cast<T*>(data_);
  }
  Strides strides() const { return is_packed() ? row_major(shape_) : *strides_; }
  // A part of the same memory; its offset counts from first().
  Array view(const Region& region) const;
  // The same numbers of the same memory, which may change.
  bool is(const Array& other) const {
    return data_ == other.data_ && buffer_ == other.buffer_ && key_ == other.key_ && shape_ == other.shape_ &&
           (is_packed() || *strides_ == *other.strides_);
  }
  bool operator==(const Array& other) const { return is(other); }

  // The same memory under another shape of equal size.
  Array reshaped(Shape shape) const;
  // Before writing: moves to memory of its own if others hold this memory too.
  void make_unique() {
    if (buffer_.use_count() > 1 || !buffer_->own()) *this = clone();
  }
  // Fresh memory with the same numbers.
  Array clone() const;
  // The same numbers as another dtype; *this if it is that already.
  Array cast(DType dtype) const;

  // The memory, which goes back to the system when the result ends, and without which this Array stays; it is the only
  // one that holds all of that memory.
  std::shared_ptr<Buffer> take_out();
  // Gives one without memory that of `numbers`, which has the same shape and dtype.
  void put_in(Array numbers);

  std::uint64_t version() const { return buffer_ ? buffer_->version() : 0; }

 private:
  using Key = std::uint16_t;  // the dtype, and whether strides count: one comparison for both
  static constexpr Key kStrided = 256;
  [[noreturn]] void wrong_dtype(DType wanted) const;
  [[noreturn]] static void fail_strided();

  Shape shape_;
  Key key_ = static_cast<Key>(DType::float32);
  Index numel_ = 0;
  std::shared_ptr<Buffer> buffer_;
  void* data_ = nullptr;
  std::shared_ptr<const Strides> strides_;  // null: packed
};

// Calls f with a value of the C++ type that stands for a floating dtype: f(float{}) or f(double{}).
template <class F> decltype(auto) visit_floating(DType dtype, F&& f) {
  if (dtype == DType::float64) return f(double{});
  if (dtype == DType::float32) return f(float{});
  fail_type("expected floating numbers; got ", dtype);
}

// The same for every dtype.
template <class F> decltype(auto) visit_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::int64:
      return f(std::int64_t{});
    case DType::boolean:
      break;
  }
  return f(bool{});
}

template <class Number> Array Array::full(Shape shape, DType dtype, Number value) {
  Array result(std::move(shape), dtype);
  visit_any(dtype, [&]<class T>(T) { std::fill_n(result.data<T>(), result.numel(), static_cast<T>(value)); });
  return result;
}

}  // namespace qkv
