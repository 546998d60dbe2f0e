#include "ops/kernel_layout.h"

#include "ops/lengths.h"

namespace qkv::ops {
namespace {

constexpr const char* kName = "kernel_attention";

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

Allowed lengths(const Array& lens, const Layout& layout) {
  const PoolingSizes& n = layout.n;
  AttentionOptions o;
  o.operation = kName;
  o.valid_lens = lens;
  if (lens.defined() && !layout.batch) {
    const Array own = checked_lengths(kName, lens, {}, {n.queries}, n.keys);
    o.valid_lens = own.reshaped(lens.rank() == 1 ? Shape{1, n.queries} : Shape{1});
  }
  Allowed allowed({n.batches, n.queries, n.keys}, DType::float32, o);
  allowed.keep();
  return allowed;
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
