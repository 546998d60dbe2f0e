// Softmax over allowed entries: the normaliser of composed attention.
#include <algorithm>
#include <cstring>
#include <limits>

#include "autograd/saving.h"
#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/attention/allowed.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

template <class T> void zero_outside(T* row, Index low, Index high, Index n) {
  if (low > 0) std::memset(row, 0, static_cast<std::size_t>(low) * sizeof(T));
  if (high < n) std::memset(row + high, 0, static_cast<std::size_t>(n - high) * sizeof(T));
}

template <class T>
void masked_rows(T* y, const T* x, const Allowed& allowed, const AttentionOptions& o, Index begin, Index end) {
  const auto& kernel = kernels::kernels<T>().softmax;
  const Index n = allowed.keys();
  const T fill =
      o.masked_value ? in_range<T>(o.operation, "masked_value", *o.masked_value) : -std::numeric_limits<T>::infinity();
  const bool plain = !o.masked_value && !allowed.has_mask();
  for (Index row = begin, next = begin; row < end; row = next) {
    T* out = y + row * n;
    // Outside of the range nothing is read; with a value to fill in, the whole row takes part.
    const auto [low, high] = o.masked_value ? kernels::KeyRange{0, n} : allowed.range(row);
    next = plain ? allowed.other_range(row, end) : row + 1;
    if (!plain) {
      std::memcpy(out, x + row * n, static_cast<std::size_t>(n) * sizeof(T));
      if (allowed.has_bias()) allowed.add_bias(out, row);
      allowed.exclude(out, row, fill);
    }
    const T* scores = plain ? x + row * n : out;
    const bool found_nan = kernel.forward(out + low, scores + low, T(1), true, next - row, high - low, n);
    for (Index i = row; i < next; ++i) zero_outside(y + i * n, low, high, n);
    if (found_nan && !plain && !o.masked_value) allowed.exclude(out, row, T(0));
  }
}

}  // namespace

Tensor masked_softmax(const Tensor& input, const AttentionOptions& o) {
  const Tensor scores = floating(input);
  Allowed allowed(scores.shape(), scores.dtype(), o);
  Array y(scores.shape(), scores.dtype());
  const Index n = allowed.keys(), rows = y.shape().product(0, y.rank() - 1);
  visit_floating(scores.dtype(), [&]<class T>(T) {
    parallel_for(0, rows, grain_for(8 * n),
                 [&](Index begin, Index end) { masked_rows(y.data<T>(), scores.ptr<T>(), allowed, o, begin, end); });
  });
  const Tensor bias = allowed.has_bias() ? o.attn_mask : Tensor();
  if (!wants_gradient({scores, bias})) return Tensor(std::move(y));
  allowed.keep();
  const auto kept = std::make_shared<const Allowed>(std::move(allowed));
  return record_by_output(
      Array(y), {scores, bias},
      [y = Saved(y), kept, rows, n, filled = o.masked_value.has_value(),
       mask_shape = bias.defined() ? bias.shape() : Shape{},
       mask_dtype = bias.defined() ? bias.dtype() : DType::float32](std::span<const Array> dys, Gradients& dx) {
        const Array& dy = dys[0];
        Array dscores(dy.shape(), dy.dtype());
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const T* saved = y.data<T>();
          parallel_for(0, rows, grain_for(8 * n), [&](Index begin, Index end) {
            for (Index row = begin; row < end; ++row) {
              T* out = dscores.data<T>() + row * n;
              const auto [low, high] = filled ? kernels::KeyRange{0, n} : kept->range(row);
              const Index first = row * n + low;
              kernels::kernels<T>().softmax.backward(out + low, dy.data<T>() + first, saved + first, T(1), true, 1,
                                                     high - low);
              zero_outside(out, low, high, n);
              if (filled) kept->exclude(out, row, T(0));
            }
          });
        });
        if (dx.wants(1)) dx.add(1, sum_to(dscores, mask_shape).cast(mask_dtype));
        if (dx.wants(0)) dx.add(0, std::move(dscores));
      },
      [y = Saved(y), kept](std::span<const Tensor> dys, TensorGradients& dx) {
        const Tensor& dy = dys[0];
        const Tensor open(kept->array()), zero = scalar_like(dy, 0), p = dx.output(y);
        // What flows into a weight of 0 may come from a value that nobody may read.
        const Tensor arriving = where(compare(Compare::equal, p, zero), zero, dy);
        const Tensor dscores = where(open, softmax_gradient(p, arriving, -1), zero);
        if (dx.wants(1)) dx.add(1, cast(sum_to(dscores, dx.shape(1)), dx.dtype(1)));
        dx.add(0, dscores);
      });
}

Tensor masked_softmax(const Tensor& scores, const Tensor& allowed, std::optional<double> masked_value) {
  AttentionOptions o;
  o.attn_mask = allowed;
  o.masked_value = masked_value;
  return masked_softmax(scores, o);
}

}  // namespace qkv::ops
