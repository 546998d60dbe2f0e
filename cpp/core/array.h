// Array: contiguous, row-major numbers with a shape. Copying an Array shares its memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/buffer.h"
#include "core/error.h"
#include "core/types.h"

namespace qkv {

class Array {
 public:
  Array() = default;  // no array at all: defined() is false
  Array(Shape shape, DType dtype);
  Array(Shape shape, DType dtype, std::shared_ptr<Buffer> buffer, Index offset_bytes = 0);

  static Array zeros(Shape shape, DType dtype);
  template <class Number> static Array full(Shape shape, DType dtype, Number value);

  bool defined() const { return buffer_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Index rank() const { return shape_.rank(); }
  Index dim(Index axis) const { return shape_.dim(axis); }
  Index numel() const { return numel_; }
  Index bytes() const { return numel_ * item_size(dtype_); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }

  void* raw() const { return data_; }
  template <class T> T* data() const {
    if (dtype_ != dtype_v<T>) wrong_dtype(dtype_v<T>);
    return static_cast<T*>(data_);
  }

  // The same memory under another shape of equal size.
  Array reshaped(Shape shape) const;
  // Before writing: moves to memory of its own if others hold this memory too.
  void make_unique() {
    if (buffer_.use_count() > 1 || buffer_->borrowed()) *this = clone();
  }
  // Fresh memory with the same numbers.
  Array clone() const;
  // The same numbers as another dtype; *this if it is that already.
  Array cast(DType dtype) const;

  std::uint64_t version() const { return buffer_ ? buffer_->version() : 0; }

 private:
  [[noreturn]] void wrong_dtype(DType wanted) const;

  Shape shape_;
  DType dtype_ = DType::float32;
  Index numel_ = 0;
  std::shared_ptr<Buffer> buffer_;
  void* data_ = nullptr;
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
  visit_any(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(result.data<T>(), result.numel(), static_cast<T>(value));
  });
  return result;
}

}  // namespace qkv
