#include "ops/strides.h"

namespace qkv::ops {

Strides row_major(const Shape& shape) {
  Strides strides(shape.size());
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

Strides broadcast_strides(const Shape& from, const Shape& to) {
  const Strides own = row_major(from);
  const std::size_t extra = to.size() - from.size();
  Strides strides(to.size(), 0);
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] != 1) strides[axis + extra] = own[axis];
  return strides;
}

Shape broadcast_or_fail(const char* operation, const Shape& a, const Shape& b) {
  Shape shape;
  if (!broadcast(a, b, shape))
    fail_value(operation, ": shapes must be equal or 1 on each axis, counted from the last; got ", a, " and ", b);
  return shape;
}

}  // namespace qkv::ops
