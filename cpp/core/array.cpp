#include "core/array.h"

#include <algorithm>

#include "core/parallel.h"

namespace qkv {

static constexpr Index kBytesAtOnce = Index{1} << 19;  // of one thread

Array::Array(Shape shape, DType dtype)
    : shape_(std::move(shape)), key_(static_cast<Key>(dtype)), numel_(shape_.numel()) {
  Index size;
  if (__builtin_mul_overflow(numel_, item_size(dtype), &size)) [[unlikely]]
    throw MemoryError(text("array: ", shape_, " of dtype ", dtype, " needs more than 2^63 bytes"));
  try {
    buffer_ = Buffer::allocate(static_cast<std::size_t>(size));
  } catch (const std::bad_alloc&) {
    throw MemoryError(text("array: ", shape_, " of dtype ", dtype, " needs ", size, " bytes, which cannot be had"));
  }
  data_ = buffer_->data();
}

Array::Array(Shape shape, DType dtype, std::shared_ptr<Buffer> buffer, Index offset_bytes)
    : shape_(std::move(shape)), key_(static_cast<Key>(dtype)), numel_(shape_.numel()), buffer_(std::move(buffer)) {
  data_ = static_cast<char*>(buffer_->data()) + offset_bytes;
}

Array::Array(Shape shape, Strides strides, DType dtype, std::shared_ptr<Buffer> buffer, void* first)
    : shape_(std::move(shape)),
      key_(static_cast<Key>(dtype)),
      numel_(shape_.numel()),
      buffer_(std::move(buffer)),
      data_(first) {
  Index step = 1;
  bool packed = true;
  for (std::size_t axis = shape_.size(); packed && axis-- > 0; step *= shape_[axis])
    packed = shape_[axis] == 1 || strides[axis] == step;
  if (packed || numel_ == 0) return;
  key_ |= kStrided;
  strides_ = std::make_shared<const Strides>(std::move(strides));
}

Array Array::view(const Region& region) const {
  char* first = static_cast<char*>(data_) + (region.shape.numel() == 0 ? 0 : region.offset * item_size(dtype()));
  return Array(region.shape, region.strides, dtype(), buffer_, first);
}

Array Array::zeros(Shape shape, DType dtype) {
  Array result(std::move(shape), dtype);
  char* bytes = static_cast<char*>(result.raw());
  parallel_for(0, result.bytes(), kBytesAtOnce,
               [=](Index begin, Index end) { std::memset(bytes + begin, 0, static_cast<std::size_t>(end - begin)); });
  return result;
}

Array Array::without_memory(Shape shape, DType dtype) {
  const Index bytes = shape.numel() * item_size(dtype);
  return Array(std::move(shape), dtype, Buffer::without_memory(static_cast<std::size_t>(bytes)));
}

std::shared_ptr<Buffer> Array::take_out() {
  std::shared_ptr<Buffer> memory = buffer_->take_out();
  memory->bypass_cache();
  data_ = nullptr;
  return memory;
}

void Array::put_in(Array numbers) {
  buffer_->put_in(*numbers.buffer_);
  data_ = buffer_->data();
}

Array Array::reshaped(Shape shape) const {
  if (!is_packed()) fail_strided();
  Array result = *this;
  if (shape.numel() != numel_)
    fail_value("reshape: the new shape ", shape, " does not hold the ", numel_, " numbers of ", shape_);
  result.shape_ = std::move(shape);
  return result;
}

Array Array::clone() const {
  Array result(shape_, dtype());
  char* to = static_cast<char*>(result.raw());
  const char* from = static_cast<const char*>(raw());
  parallel_for(0, bytes(), kBytesAtOnce, [=](Index begin, Index end) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
  return result;
}

Array Array::cast(DType dtype) const {
  if (dtype == this->dtype()) return *this;
  Array result(shape_, dtype);
  visit_any(this->dtype(), [&](auto from) {
    visit_any(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      // Booleans as bytes: GCC converts one after the other otherwise.
      using Stored = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
      const auto* x = reinterpret_cast<const Stored*>(data<From>());
      To* y = result.data<To>();
      const auto converted = [](Stored value) {
        if constexpr (std::is_same_v<To, bool>) return value != Stored{};
        else if constexpr (std::is_same_v<To, std::int64_t> && std::is_floating_point_v<From>)
          return value >= static_cast<From>(-0x1p63) && value < static_cast<From>(0x1p63) ? static_cast<To>(value)
                                                                                          : INT64_MIN;
        else return static_cast<To>(value);
      };
      parallel_for(0, numel_, kBytesAtOnce / static_cast<Index>(sizeof(To)),
                   [=](Index begin, Index end) { std::transform(x + begin, x + end, y + begin, converted); });
    });
  });
  return result;
}

void Array::fail_strided() { throw std::logic_error("Array: its numbers do not stand one after the other"); }

void Array::wrong_dtype(DType wanted) const {
  if (dtype() == wanted) fail_strided();
  throw std::logic_error(text("Array: its numbers are ", dtype(), ", not ", wanted));
}

}  // namespace qkv
