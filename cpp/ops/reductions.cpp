#include "ops/reductions.h"

#include <utility>

namespace qkv::ops {

ReducedAxes reduced_axes(const char* operation, const Shape& shape, const std::optional<Axes>& axes, bool keepdims) {
  std::vector<bool> reduced(shape.size(), !axes.has_value());
  if (axes) {
    for (const Index axis : *axes) {
      const auto at = static_cast<std::size_t>(checked_axis(operation, axis, shape.rank()));
      if (reduced[at]) fail_value(operation, ": axis must name each axis once; got axis ", axis, " twice");
      reduced[at] = true;
    }
  }
  ReducedAxes p;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    p.kept.push_back(reduced[axis] ? 1 : shape[axis]);
    (reduced[axis] ? p.length : p.rows) *= shape[axis];
    if (!reduced[axis]) p.order.push_back(static_cast<Index>(axis));
    if (!reduced[axis] || keepdims) p.result.push_back(p.kept[axis]);
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (reduced[axis]) p.order.push_back(static_cast<Index>(axis));
  p.reduced = std::move(reduced);
  return p;
}

Array rows_of(const Array& x, const ReducedAxes& r) {
  if (std::is_sorted(r.order.begin(), r.order.end())) return packed(x);
  const NoGrad quiet;
  return packed(transpose(Tensor(x), r.order).data());
}

Array from_rows(const Array& rows, const ReducedAxes& r, const Shape& shape) {
  if (std::is_sorted(r.order.begin(), r.order.end())) return rows.reshaped(shape);
  Shape moved;
  Axes back(r.order.size());
  for (std::size_t i = 0; i < r.order.size(); ++i) {
    moved.push_back(shape.dim(r.order[i]));
    back[static_cast<std::size_t>(r.order[i])] = static_cast<Index>(i);
  }
  const NoGrad quiet;
  return packed(transpose(Tensor(rows.reshaped(moved)), back).data());
}

Shape broadcast_or_fail(const char* operation, const Shape& a, const Shape& b) {
  Shape shape;
  if (!broadcast(a, b, shape))
    fail_value(operation, ": shapes must be equal or 1 on each axis, counted from the last; got ", a, " and ", b);
  return shape;
}

Index checked_axis(const char* operation, Index axis, Index rank) {
  if (rank == 0) fail_value(operation, ": axis must be None because a number has no axes; got axis ", axis);
  if (axis < -rank || axis >= rank)
    fail_value(operation, ": axis must be from ", -rank, " to ", rank - 1, " because the array has ", rank,
               " axes; got ", axis);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace qkv::ops
