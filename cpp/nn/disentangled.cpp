#include "nn/disentangled.h"

#include <algorithm>
#include <cmath>

#include "autograd/views.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

// In float32, as Hugging Face computes them.
Index bucket_of(const Disentangled& o, Index distance) {
  const Index middle = o.buckets / 2, steps = std::abs(distance);
  if (o.buckets < 1 || o.max_distance < 1 || steps <= middle) return distance;
  const auto ratio = [middle](Index length) { return static_cast<float>(length) / static_cast<float>(middle); };
  const float part = std::log(ratio(steps)) / std::log(ratio(o.max_distance - 1)) * static_cast<float>(middle - 1);
  const Index bucket = static_cast<Index>(std::ceil(part)) + middle;
  return distance < 0 ? -bucket : bucket;
}

// (B, L, H * D) times (2 L - 1, H * D) for each head: (B, H, L, 2 L - 1), whose memory is shown as (B, H, L, L).
Tensor by_distance(const Tensor& x, const Tensor& distances, Index heads, Index row_step, Index column_step) {
  const Index B = x.dim(0), L = x.dim(1), D = x.dim(2) / heads, N = distances.dim(0);
  const Tensor split = ops::swapaxes(ops::reshape(x, {B, L, heads, D}), 1, 2);             // (B, H, L, D)
  const Tensor table = ops::transpose(ops::reshape(distances, {N, heads, D}), {1, 2, 0});  // (H, D, N)
  const Tensor products = packed(ops::matmul(split, table));                               // (B, H, L, N)
  return strided(products, {{B, heads, L, L}, {heads * L * N, L * N, row_step, column_step}, L - 1});
}

}  // namespace

Array disentangled_rows(const Disentangled& o, Index length) {
  Array rows({2 * length - 1}, DType::int64);
  for (Index i = 0; i < rows.numel(); ++i)
    rows.data<std::int64_t>()[i] = std::clamp<Index>(bucket_of(o, i - (length - 1)) + o.span, 0, 2 * o.span - 1);
  return rows;
}

Tensor disentangled_scores(const Disentangled& o, const Tensor& queries, const Tensor& keys,
                           const Tensor& distance_queries, const Tensor& distance_keys, Index heads, double scale) {
  const Index L = queries.dim(1);
  Tensor sum;
  // Query i has its product with distance i - j at i (2 L - 1) + i - j + L - 1, key j at j (2 L - 1) + i - j + L - 1.
  if (o.content_to_position) sum = by_distance(queries, distance_keys, heads, 2 * L, -1);
  if (o.position_to_content) {
    const Tensor other = by_distance(keys, distance_queries, heads, 1, 2 * L - 2);
    sum = sum.defined() ? ops::add(sum, other) : other;
  }
  return ops::scaled(sum, scale);
}

}  // namespace qkv::nn
