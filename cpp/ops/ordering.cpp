// Where the largest and smallest numbers stand, and numbers in another order along an axis.
#include <numeric>

#include "ops/integers.h"
#include "ops/reductions.h"

namespace qkv::ops {
namespace {

Tensor place(const char* operation, const Tensor& x, std::optional<Index> axis, bool keepdims, bool largest) {
  const std::optional<Axes> axes = axis ? std::optional(Axes{*axis}) : std::nullopt;
  const ReducedAxes p = reduced_axes(operation, x.shape(), axes, keepdims);
  if (p.length == 0) fail_value(operation, ": x must have at least one number on the reduced axis; got x ", x.shape());
  const Array rows = rows_of(x.data(), p);
  if (!is_floating(x.dtype())) return Tensor(integer_place(largest, rows, p.length, p.result));
  Array y(p.result, DType::int64);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto& kernel = kernels::kernels<T>().reduce;
    parallel_for(0, p.rows, grain_for(p.length), [&](Index begin, Index end) {
      (largest ? kernel.place_of_max : kernel.place_of_min)(y.data<std::int64_t>() + begin,
                                                            rows.data<T>() + begin * p.length, end - begin, p.length);
    });
  });
  return Tensor(std::move(y));
}

// places (k) of the best numbers of a row, the best first; order (n) is scratch.
template <class T> void best_of_row(std::int64_t* places, const T* x, Index n, Index k, bool largest, Index* order) {
  std::iota(order, order + n, Index{0});
  const auto above = [](T a, T b) { return a > b || (a != a && b == b); };  // NaN above all
  const auto better = [=](Index i, Index j) {
    if (largest ? above(x[i], x[j]) : above(x[j], x[i])) return true;
    return !(largest ? above(x[j], x[i]) : above(x[i], x[j])) && i < j;
  };
  if (k > n / 8 && k < n) std::nth_element(order, order + k, order + n, better);
  if (k > n / 8) std::sort(order, order + k, better);
  else std::partial_sort(order, order + k, order + n, better);
  std::copy_n(order, k, places);
}

Shape with_size(Shape shape, Index axis, Index size) {
  shape[static_cast<std::size_t>(axis)] = size;
  return shape;
}

}  // namespace

Tensor place_of_max(const Tensor& x, std::optional<Index> axis, bool keepdims) {
  return place("argmax", x, axis, keepdims, true);
}

Tensor place_of_min(const Tensor& x, std::optional<Index> axis, bool keepdims) {
  return place("argmin", x, axis, keepdims, false);
}

Array best_places(const Tensor& x, Index k, Index axis, bool largest) {
  axis = checked_axis("topk", axis, x.rank());
  const Index n = x.dim(axis);
  if (k < 0 || k > n)
    fail_value("topk: k must be from 0 to ", n, " because so many numbers stand on axis ", axis, "; got k = ", k);
  const ReducedAxes p = reduced_axes("topk", x.shape(), Axes{axis}, true);
  const Array rows = rows_of(x.data(), p);
  const Shape shape = with_size(x.shape(), axis, k);
  Array places({p.rows, k}, DType::int64);
  visit_any(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, p.rows, grain_for(4 * n), [&](Index begin, Index end) {
      const Scratch order(static_cast<std::size_t>(n) * sizeof(Index));
      for (Index row = begin; row < end; ++row)
        best_of_row(places.data<std::int64_t>() + row * k, rows.data<T>() + row * n, n, k, largest, order.as<Index>());
    });
  });
  return from_rows(places, p, shape);
}

Tensor take_along_axis(const Tensor& x, const Array& places, Index axis) {
  axis = checked_axis("take_along_axis", axis, x.rank());
  if (places.rank() != x.rank() || with_size(places.shape(), axis, x.dim(axis)) != x.shape())
    fail_value("take_along_axis: indices must have the shape of x ", x.shape(), " on every axis but axis ", axis,
               "; got indices ", places.shape());
  const Index n = x.dim(axis), count = places.dim(axis), inner = x.shape().product(axis + 1, x.rank());
  Array positions(places.shape(), DType::int64);
  const std::int64_t* from = places.data<std::int64_t>();
  std::int64_t* to = positions.data<std::int64_t>();
  for (Index i = 0; i < places.numel(); ++i) {
    const std::int64_t at = from[i] < 0 ? from[i] + n : from[i];
    if (at < 0 || at >= n)
      fail_value("take_along_axis: indices must be from ", -n, " to ", n - 1, " because so many numbers stand on axis ",
                 axis, "; got ", from[i]);
    to[i] = (i / (inner * count) * n + at) * inner + i % inner;
  }
  return take_flat(x, positions, places.shape());
}

}  // namespace qkv::ops
