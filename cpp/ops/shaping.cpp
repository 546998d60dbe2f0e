#include "ops/shaping.h"

#include "autograd/views.h"
#include "ops/reductions.h"

namespace qkv::ops {

Tensor add_axes(const char* operation, const Tensor& x, const Shape& places) {
  const Index rank = x.rank() + places.rank();
  std::vector<bool> added(static_cast<std::size_t>(rank));
  for (const Index place : places) {
    if (place < -rank || place >= rank)
      fail_value(operation, ": axis must be from ", -rank, " to ", rank - 1, " because the result has ", rank,
                 " axes; got ", place);
    auto is_added = added[static_cast<std::size_t>(place < 0 ? place + rank : place)];
    if (is_added) fail_value(operation, ": axis must name each axis once; got ", places);
    is_added = true;
  }
  Shape shape;
  const Index* next = x.shape().begin();
  for (const bool is_added : added) shape.push_back(is_added ? 1 : *next++);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const std::optional<Axes>& axes) {
  std::vector<bool> left_out;
  for (const Index size : x.shape()) left_out.push_back(!axes && size == 1);
  for (const Index given : axes.value_or(Axes())) {
    const Index at = checked_axis("squeeze", given, x.rank());
    if (x.dim(at) != 1)
      fail_value("squeeze: axis must name axes of size 1; got axis ", given, " of a Tensor ", x.shape());
    left_out[static_cast<std::size_t>(at)] = true;
  }
  Shape shape;
  for (std::size_t i = 0; i < left_out.size(); ++i)
    if (!left_out[i]) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor flatten(const Tensor& x, Index first, Index last) {
  if (x.rank() == 0) return reshape(copy(x), {1});
  const Index begin = checked_axis("flatten", first, x.rank()), end = checked_axis("flatten", last, x.rank()) + 1;
  if (begin >= end)
    fail_value("flatten: start_axis must not stand behind end_axis; got start_axis = ", first, ", end_axis = ", last);
  Shape shape(x.shape().begin(), x.shape().begin() + begin);
  shape.push_back(x.shape().product(begin, end));
  for (Index axis = end; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  return reshape(copy(x), shape);
}

Tensor expand(const Tensor& x, Shape shape) {
  const Index extra = shape.rank() - x.rank();
  for (Index axis = 0; axis < shape.rank(); ++axis) {
    Index& size = shape[static_cast<std::size_t>(axis)];
    if (size == -1 && axis >= extra && extra >= 0) size = x.dim(axis - extra);
    if (size < 0)
      fail_value("broadcast_to: shape must hold sizes, or -1 for an axis of the Tensor ", x.shape(), "; got ", shape);
  }
  return broadcast_to(x, shape);
}

Tensor flip(const Tensor& x, const std::optional<Axes>& axes) {
  const std::vector<bool> turned = reduced_axes("flip", x.shape(), axes, false).reduced;
  return view(x, [&](const Strides& own) {
    Region region{x.shape(), own};
    for (std::size_t i = 0; i < turned.size(); ++i) {
      if (!turned[i] || x.shape()[i] < 2) continue;
      region.offset += (x.shape()[i] - 1) * own[i];
      region.strides[i] = -own[i];
    }
    return region;
  });
}

Tensor moveaxis(const Tensor& x, const Shape& from, const Shape& to) {
  if (from.size() != to.size())
    fail_value("moveaxis: source and destination must have as many axes; got ", from, " and ", to);
  const auto axes_of = [&](const Shape& given) {
    return reduced_axes("moveaxis", x.shape(), Axes(given), false).reduced;
  };
  const std::vector<bool> moved = axes_of(from), taken = axes_of(to);
  Axes order;
  for (Index axis = 0; axis < x.rank(); ++axis)
    if (!moved[static_cast<std::size_t>(axis)]) order.push_back(axis);
  for (Index place = 0; place < x.rank(); ++place)
    for (std::size_t i = 0; taken[static_cast<std::size_t>(place)] && i < to.size(); ++i)
      if (checked_axis("moveaxis", to[i], x.rank()) == place)
        order.insert(order.begin() + place, checked_axis("moveaxis", from[i], x.rank()));
  return transpose(x, order);
}

}  // namespace qkv::ops
