#include "core/types.h"

#include "core/error.h"

namespace qkv {

Index item_size(DType dtype) {
  constexpr Index sizes[] = {4, 8, 8, 1};
  return sizes[static_cast<std::size_t>(dtype)];
}

const char* name(DType dtype) {
  constexpr const char* names[] = {"float32", "float64", "int64", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

Index Shape::numel() const { return product(0, rank()); }

Index Shape::product(Index begin, Index end) const {
  Index result = 1;
  bool fits = true, empty = false;
  for (Index axis = begin; axis < end; ++axis) {
    const Index size = dim(axis);
    if (size == 0) empty = true;
    else fits = size > 0 && !__builtin_mul_overflow(result, size, &result) && fits;
  }
  if (!fits) [[unlikely]]
    fail_value("shape: sizes must be at least 0 and their product below 2^63; got ", *this);
  return empty ? 0 : result;
}

std::string Shape::str() const {
  std::string text = "(";
  for (std::size_t axis = 0; axis < size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + (size() == 1 ? ",)" : ")");
}

bool broadcast(const Shape& a, const Shape& b, Shape& result) {
  const Index rank = a.rank() > b.rank() ? a.rank() : b.rank();
  Shape combined(static_cast<std::size_t>(rank));
  for (Index axis = 1; axis <= rank; ++axis) {
    const Index m = axis <= a.rank() ? a.dim(-axis) : 1;
    const Index n = axis <= b.rank() ? b.dim(-axis) : 1;
    if (m != n && m != 1 && n != 1) return false;
    combined[static_cast<std::size_t>(rank - axis)] = m == 1 ? n : m;
  }
  result = std::move(combined);
  return true;
}

}  // namespace qkv
