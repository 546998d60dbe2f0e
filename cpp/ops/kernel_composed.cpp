#include "ops/kernel_composed.h"

namespace qkv::ops {
namespace {

// Differences (B, Lq, Lk, D); 0 where not allowed, even if NaN is there.
Tensor differences(const Tensor& queries, const Tensor& keys, const Tensor& allowed) {
  const Index B = queries.dim(0), Lq = queries.dim(1), Lk = keys.dim(1), D = queries.dim(2);
  const Tensor difference = subtract(reshape(queries, {B, Lq, 1, D}), reshape(keys, {B, 1, Lk, D}));
  return where(reshape(allowed, {B, Lq, Lk, 1}), difference, scalar_like(queries, 0));
}

Tensor squared_distances(const Tensor& queries, const Tensor& keys, const Tensor& allowed) {
  const Tensor kept = differences(queries, keys, allowed);
  return sum(multiply(kept, kept), Axes{3});
}

// max(1 - x, 0), with derivative 0 from x = 1 on.
Tensor falling(const Tensor& x) {
  const Tensor one = scalar_like(x, 1);
  return where(compare(Compare::less, x, one), subtract(one, x), scalar_like(x, 0));
}

}  // namespace

Tensor composed_distances(const Tensor& queries, const Tensor& keys, const Tensor& allowed, double order) {
  const Tensor apart = differences(queries, keys, allowed);
  const Tensor distance = order == 0 ? scaled(sum(apart, Axes{3}), 0)  // constant except for jumps
                                     : vector_norm(apart, order, Axes{3}, false);
  return where(allowed, distance, scalar_like(queries, 1));
}

Tensor composed_weights(const Tensor& kernel_values, const Tensor& allowed) {
  const Tensor zero = scalar_like(kernel_values, 0), values = where(allowed, kernel_values, zero);
  const Tensor total = sum(values, Axes{2}, true), empty = compare(Compare::equal, total, zero);
  return where(empty, zero, divide(values, where(empty, scalar_like(total, 1), total)));
}

Tensor composed_values(Kernel kernel, const Tensor& u) {
  switch (kernel) {
    case Kernel::gaussian:
      return unary(Unary::exponential, scaled(multiply(u, u), -0.5));
    case Kernel::epanechnikov:
      return falling(multiply(u, u));
    case Kernel::triangular:
      return falling(unary(Unary::absolute, u));
    case Kernel::boxcar:
      return indicator(compare(Compare::less, unary(Unary::absolute, u), scalar_like(u, 1)), u.dtype());
    case Kernel::constant:
      break;
  }
  return Tensor(Array::full(u.shape(), u.dtype(), 1));
}

Tensors composed_pooling(Kernel kernel, const Tensor& queries, const Tensor& keys, const Tensor& values,
                         const Tensor& bandwidth, const Tensor& allowed) {
  const Tensor squares = squared_distances(queries, keys, allowed), h = cast(reshape(bandwidth, {}), squares.dtype());
  const Tensor relative = divide(squares, multiply(h, h));  // u^2
  const auto weights = [&]() -> Tensor {
    switch (kernel) {
      case Kernel::gaussian:
        return masked_softmax(scaled(relative, -0.5), allowed);
      case Kernel::epanechnikov:
        return composed_weights(falling(relative), allowed);
      default:
        return composed_weights(composed_values(kernel, divide(safe_sqrt(squares), h)), allowed);
    }
  }();
  return {weighted_values(weights, values), weights};
}

}  // namespace qkv::ops
