#include "core/array.h"

#include <algorithm>

#include "core/parallel.h"

namespace qkv {

Array::Array(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype), numel_(shape_.numel()) {
  Index size;
  if (__builtin_mul_overflow(numel_, item_size(dtype_), &size)) [[unlikely]]
    throw MemoryError(text("array: ", shape_, " of dtype ", dtype_, " needs more than 2^63 bytes"));
  try {
    buffer_ = Buffer::allocate(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    throw MemoryError(text("array: ", shape_, " of dtype ", dtype_, " needs ", size, " bytes, which cannot be had"));
  }
  data_ = buffer_->data();
}

Array::Array(Shape shape, DType dtype, std::shared_ptr<Buffer> buffer, Index offset_bytes)
    : shape_(std::move(shape)), dtype_(dtype), numel_(shape_.numel()), buffer_(std::move(buffer)) {
  data_ = static_cast<char*>(buffer_->data()) + offset_bytes;
}

Array Array::zeros(Shape shape, DType dtype) {
  Array result(std::move(shape), dtype);
  char* bytes = static_cast<char*>(result.raw());
  parallel_for(0, result.bytes(), Index{1} << 19,
               [=](Index begin, Index end) { std::memset(bytes + begin, 0, static_cast<std::size_t>(end - begin)); });
  return result;
}

Array Array::reshaped(Shape shape) const {
  Array result = *this;
  if (shape.numel() != numel_)
    fail_value("reshape: the new shape ", shape, " does not hold the ", numel_, " numbers of ", shape_);
  result.shape_ = std::move(shape);
  return result;
}

Array Array::clone() const {
  Array result(shape_, dtype_);
  std::memcpy(result.raw(), raw(), static_cast<std::size_t>(bytes()));
  return result;
}

Array Array::cast(DType dtype) const {
  if (dtype == dtype_) return *this;
  Array result(shape_, dtype);
  visit_any(dtype_, [&](auto from) {
    visit_any(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* x = data<From>();
      To* y = result.data<To>();
      std::transform(x, x + numel_, y, [](From value) {
        if constexpr (std::is_same_v<To, bool>) return value != From{};
        else return static_cast<To>(value);
      });
    });
  });
  return result;
}

void Array::wrong_dtype(DType wanted) const {
  throw std::logic_error(text("Array: its numbers are ", dtype_, ", not ", wanted));
}

}  // namespace qkv
