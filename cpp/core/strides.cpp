#include "core/strides.h"

namespace qkv {

Strides row_major(const Shape& shape) {
  Strides strides(shape.size());
  Index step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

Strides broadcast_strides(const Shape& from, const Shape& to, const Strides& own) {
  const std::size_t extra = to.size() - from.size();
  Strides strides(to.size(), 0);
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    if (from[axis] != 1) strides[axis + extra] = own[axis];
  return strides;
}

}  // namespace qkv
