// reshape and broadcast_to, by what becomes of axes.
#pragma once

#include "ops/ops.h"

namespace qkv::ops {

// With axes of size 1 at these places of the result.
Tensor add_axes(const char* operation, const Tensor& x, const Shape& places);
// Without axes of size 1: all, or these.
Tensor squeeze(const Tensor& x, const std::optional<Axes>& axes);
Tensor flatten(const Tensor& x, Index first, Index last);  // neighbouring axes as one; a copy
Tensor expand(const Tensor& x, Shape shape);               // -1 keeps the size that the axis has
// Views: all axes, or these, from their ends; and axes at other places, while the others keep their order.
Tensor flip(const Tensor& x, const std::optional<Axes>& axes);
Tensor moveaxis(const Tensor& x, const Shape& from, const Shape& to);

}  // namespace qkv::ops
