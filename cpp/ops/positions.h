// Where in an array an element is, for messages.
#pragma once

#include "core/types.h"

namespace qkv::ops {

// "(1, 2)" for element `flat` of an array of this shape.
inline std::string position_in(const Shape& shape, Index flat) {
  Shape position = shape;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return position.str();
}

}  // namespace qkv::ops
