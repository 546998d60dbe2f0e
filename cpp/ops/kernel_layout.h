// How the arrays of kernel pooling lie, and how many keys each of its queries sees.
#pragma once

#include "ops/attention/allowed.h"
#include "ops/ops.h"

namespace qkv::ops {

struct PoolingSizes {
  Index batches, queries, keys, features, value_features;
};

// The shapes of one call, brought to (B, L, D).
struct Layout {
  PoolingSizes n{};
  bool batch = false;          // the caller's arrays have an axis B
  bool scalar_values = false;  // (Lk)

  Tensor points(const Tensor& x) const {
    const Index length = x.dim(batch ? 1 : 0);
    return reshape(x, {n.batches, length, n.features});
  }
  Tensor values(const Tensor& x) const { return reshape(x, {n.batches, n.keys, n.value_features}); }
  Shape weights_shape() const { return batch ? Shape{n.batches, n.queries, n.keys} : Shape{n.queries, n.keys}; }
  Shape output_shape() const {
    Shape shape = batch ? Shape{n.batches, n.queries} : Shape{n.queries};
    if (!scalar_values) shape.push_back(n.value_features);
    return shape;
  }
};

// The layout of queries and keys, whose shapes are checked; that of the values is added when they are known.
Layout point_layout(const Shape& queries, const Shape& keys);
void add_values(Layout& layout, const Shape& values);

// How many keys each row (b, i) sees. A copy, because lengths that change through NumPy have no version.
Allowed lengths(const Array& valid_lens, const Layout& layout);

// The bandwidth as a number, which must be above 0.
double bandwidth_of(const Tensor& bandwidth);

}  // namespace qkv::ops
