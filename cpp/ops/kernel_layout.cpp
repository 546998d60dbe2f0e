#include "ops/kernel_layout.h"

namespace qkv::ops {
namespace {

constexpr const char* kName = "kernel_attention";

void check_lengths(const Array& lens, const Layout& layout) {
  if (!lens.defined()) return;
  const Sizes& n = layout.n;
  const Shape one = layout.batch ? Shape{n.batches} : Shape{};
  const Shape each = layout.batch ? Shape{n.batches, n.queries} : Shape{n.queries};
  if (lens.shape() != one && lens.shape() != each)
    fail_value(kName, ": valid_lens must be ", one, " or ", each, " because the weights are ", layout.weights_shape(),
               "; got valid_lens ", lens.shape());
  for (Index i = 0; i < lens.numel(); ++i)
    if (const std::int64_t length = lens.data<std::int64_t>()[i]; length < 0 || length > n.keys)
      fail_value(kName, ": valid_lens must be in 0..", n.keys, " because they count keys; got valid_lens ", length);
}

}  // namespace

Layout point_layout(const Shape& q, const Shape& k) {
  if (q.rank() < 1 || q.rank() > 3)
    fail_value(kName, ": queries must be scalars (Lq,), points (Lq, D) or batches (B, Lq, D); got queries ", q);
  const bool batch = q.rank() == 3;
  if (k.rank() != q.rank() || (batch && k.dim(0) != q.dim(0)) || (q.rank() > 1 && k.dim(-1) != q.dim(-1)))
    fail_value(kName, ": keys must be ",
               q.rank() == 1 ? "(Lk,)"
               : batch       ? "(B, Lk, D)"
                             : "(Lk, D)",
               " because distances to the queries are taken; got queries ", q, ", keys ", k);
  Layout layout;
  layout.batch = batch;
  layout.n = {batch ? q.dim(0) : 1, q.dim(batch ? 1 : 0), k.dim(batch ? 1 : 0), q.rank() == 1 ? 1 : q.dim(-1), 0};
  return layout;
}

void add_values(Layout& layout, const Shape& v) {
  layout.scalar_values = !layout.batch && v.rank() == 1;
  const bool fits = layout.batch ? v.rank() == 3 && v.dim(0) == layout.n.batches && v.dim(1) == layout.n.keys
                                 : (v.rank() == 1 || v.rank() == 2) && v.dim(0) == layout.n.keys;
  if (!fits)
    fail_value(kName, ": values must be ", layout.batch ? "(B, Lk, Dv)" : "(Lk,) or (Lk, Dv)",
               " with Lk = ", layout.n.keys, " because each key has a value; got values ", v);
  layout.n.value_features = layout.scalar_values ? 1 : v.dim(-1);
}

Lengths lengths(const Array& lens, const Layout& layout) {
  check_lengths(lens, layout);
  return {lens, layout.n, lens.defined() && lens.rank() == (layout.batch ? 2 : 1)};
}

double bandwidth_of(const Tensor& bandwidth) {
  if (bandwidth.numel() != 1) fail_value(kName, ": bandwidth must be one number; got bandwidth ", bandwidth.shape());
  const double h =
      bandwidth.dtype() == DType::float64 ? *bandwidth.ptr<double>() : static_cast<double>(*bandwidth.ptr<float>());
  if (!(h > 0))
    fail_value(kName, ": bandwidth must be above 0 because distances are divided by it; got bandwidth = ", h);
  return h;
}

}  // namespace qkv::ops
