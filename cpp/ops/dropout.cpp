// Dropout.
#include "core/batch_part.h"
#include "core/parallel.h"
#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

void check_probability(double p) {
  if (!(p >= 0 && p <= 1)) fail_value("dropout: p must be in 0..1 because it is a probability; got p = ", p);
}

Tensor dropped(const Tensor& given, const Array& keep, double p) {
  const Tensor x = packed(given);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    const T scale = T(1) / static_cast<T>(1 - p);
    parallel_for(0, x.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().dropout.forward(y.data<T>() + begin, x.ptr<T>() + begin, keep.data<bool>() + begin, scale,
                                            end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [keep = Saved(keep), p](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, dropped(dy, keep.get(), p));
  });
}

}  // namespace

Tensor dropout(const Tensor& input, double p, Generator& generator) {
  check_probability(p);
  const Tensor x = floating(input);
  if (p == 0) return x;
  if (p == 1) return multiply(x, scalar_like(x, 0));  // PyTorch draws nothing here either
  Array keep(x.shape(), DType::boolean);
  const Outside outside = outside_of_part(keep.numel());
  generator.bernoulli_piece(keep.data<bool>(), keep.numel(), 1.0 - p, outside.before, outside.behind);
  return dropped(x, keep, p);
}

Tensor dropout_with_mask(const Tensor& input, const Array& mask, double p) {
  check_probability(p);
  const Tensor x = floating(input);
  Shape common;
  if (!broadcast(mask.shape(), x.shape(), common) || common != x.shape())
    fail_value("dropout: keep must broadcast to x ", x.shape(), "; got keep ", mask.shape());
  if (p == 1) return multiply(x, scalar_like(x, 0));
  const Array narrow = mask.cast(DType::boolean);
  if (narrow.shape() == x.shape()) return dropped(x, narrow, p);
  Array keep(x.shape(), DType::boolean);
  if (keep.numel() == 0) return dropped(x, keep, p);
  const Loops<2> loops(x.shape(), {row_major(x.shape()), broadcast_strides(mask.shape(), x.shape())});
  loops.each_row(0, loops.rows(), [&](const std::array<Index, 2>& at) {
    for (Index i = 0; i < loops.run(); ++i)
      keep.data<bool>()[at[0] + i] = narrow.data<bool>()[at[1] + i * loops.run_stride(1)];
  });
  return dropped(x, keep, p);
}

}  // namespace qkv::ops
