// Rotary positions: pairs of features turn by angles whose cosines and sines are given.
#include "core/parallel.h"
#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// y = x with its pairs of features rotated; sign -1 rotates back.
Array rotated(const Array& x, const Array& cos, const Array& sin, bool interleaved, double sign) {
  Array y(x.shape(), x.dtype());
  if (x.numel() == 0) return y;
  const Index half = cos.dim(-1), n = x.dim(-1);
  // One number per row of each array, which the loops below then turn into rows.
  const Shape rows(x.shape().begin(), x.shape().end() - 1);
  const Shape table(cos.shape().begin(), cos.shape().end() - 1);
  const Loops<2> loops(rows, {row_major(rows), broadcast_strides(table, rows)});
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, loops.rows(), grain_for(2 * n * loops.run()), [&](Index begin, Index end) {
      loops.each_row(begin, end, [&](const std::array<Index, 2>& at) {
        for (Index i = 0; i < loops.run(); ++i) {
          const Index row = (at[0] + i) * n, angle = (at[1] + i * loops.run_stride(1)) * half;
          kernels::kernels<T>().rotary.rotate(y.data<T>() + row, x.data<T>() + row, cos.data<T>() + angle,
                                              sin.data<T>() + angle, static_cast<T>(sign), interleaved, half, n);
        }
      });
    });
  });
  return y;
}

Tensor rotated(const Tensor& given, const Array& cos, const Array& sin, bool interleaved, double sign) {
  const Tensor x = packed(given);
  Array y = rotated(x.data(), cos, sin, interleaved, sign);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [=, cos = Saved(cos), sin = Saved(sin)](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, rotated(dy, cos.get(), sin.get(), interleaved, -sign));
  });
}

}  // namespace

Tensor apply_rotary(const Tensor& input, const Array& cosines, const Array& sines, bool interleaved) {
  const Tensor x = floating(input);
  if (x.rank() < 2) fail_value("apply_rotary: x must be (..., L, D); got x ", x.shape());
  if (cosines.shape() != sines.shape())
    fail_value("apply_rotary: sin must be ", cosines.shape(), " to match cos; got sin ", sines.shape());
  Shape wanted = x.shape();
  if (cosines.rank() > 0) wanted.back() = cosines.dim(-1);
  Shape common;
  if (cosines.rank() < 1 || !broadcast(cosines.shape(), wanted, common) || common != wanted)
    fail_value("apply_rotary: cos must broadcast to (..., L, R / 2) of x ", x.shape(), "; got cos ", cosines.shape());
  if (2 * cosines.dim(-1) > x.dim(-1))
    fail_value("apply_rotary: cos must have at most ", x.dim(-1) / 2, " columns because x has ", x.dim(-1),
               " features that rotate in pairs; got cos ", cosines.shape());
  return rotated(x, cosines.cast(x.dtype()), sines.cast(x.dtype()), interleaved, 1);
}

}  // namespace qkv::ops
