// Layer and root-mean-square normalisation over the last axes.
#include <algorithm>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

struct Rows {
  Index count, n;
};

Rows checked(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& normalized,
             double eps) {
  if (normalized.empty())
    fail_value(operation, ": normalized_shape must name at least one axis; got normalized_shape ()");
  if (x.rank() < normalized.rank() ||
      !std::equal(normalized.begin(), normalized.end(), x.shape().end() - normalized.rank()))
    fail_value(operation, ": x must end in ", normalized, " because these axes are normalised; got x ", x.shape());
  if (weight.defined() && weight.shape() != normalized)
    fail_value(operation, ": weight must be ", normalized, " because normalized_shape is; got weight ", weight.shape());
  if (bias.defined() && bias.shape() != normalized)
    fail_value(operation, ": bias must be ", normalized, " because normalized_shape is; got bias ", bias.shape());
  if (!(eps >= 0)) fail_value(operation, ": eps must be at least 0 because it is added to a variance; got eps = ", eps);
  return {x.shape().product(0, x.rank() - normalized.rank()), normalized.numel()};
}

template <class T> const T* data_or_null(const Saved& saved) { return saved.defined() ? saved.data<T>() : nullptr; }
template <class T> const T* data_or_null(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

// At most 64 pieces of rows, whatever the number of threads: each sums the gradients of weight and bias for itself.
Index rows_per_piece(const Rows& rows) { return std::max((rows.count + 63) / 64, grain_for(8 * rows.n)); }

// body(dweight, dbias, begin, end) for pieces of rows with sums of their own, which are then added in order.
template <class T, class Body>
void with_sums(const Rows& rows, Gradients& dx, Index weight, Index bias, Body body) {
  const bool wants_weight = dx.wants(weight), wants_bias = bias >= 0 && dx.wants(bias);
  const Index grain = rows_per_piece(rows), pieces = (rows.count + grain - 1) / grain, n = rows.n;
  const auto size = [&](bool wanted) { return wanted ? Shape{pieces, n} : Shape{0, n}; };
  const Array dweights = Array::zeros(size(wants_weight), dtype_v<T>), dbiases = Array::zeros(size(wants_bias), dtype_v<T>);
  parallel_for(0, rows.count, grain, [&](Index begin, Index end) {
    const Index at = begin / grain * n;
    body(wants_weight ? dweights.data<T>() + at : nullptr, wants_bias ? dbiases.data<T>() + at : nullptr, begin, end);
  });
  const auto add_up = [&](const Array& parts, Array& total) {
    for (Index piece = 0; piece < pieces; ++piece)
      kernels::kernels<T>().elementwise.add_scaled(total.data<T>(), parts.data<T>() + piece * n, T(1), n);
  };
  if (wants_weight) add_up(dweights, dx.of(weight));
  if (wants_bias) add_up(dbiases, dx.of(bias));
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& scale, const Tensor& offset, const Shape& normalized_shape, double eps) {
  const Rows rows = checked("layer_norm", input, scale, offset, normalized_shape, eps);
  const DType dtype = promoted({input, scale, offset});
  const Tensor x = cast(input, dtype), weight = scale.defined() ? cast(scale, dtype) : scale;
  const Tensor bias = offset.defined() ? cast(offset, dtype) : offset;
  Array y(x.shape(), dtype), statistics({rows.count, 3}, dtype);
  visit_floating(dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, rows.count, grain_for(4 * rows.n), [&](Index begin, Index end) {
      kernels::kernels<T>().norm.layer_forward(y.data<T>() + begin * rows.n, statistics.data<T>() + 3 * begin,
                                               x.ptr<T>() + begin * rows.n, data_or_null<T>(weight),
                                               data_or_null<T>(bias), static_cast<T>(eps), end - begin, rows.n);
    });
  });
  if (!wants_gradient({x, weight, bias})) return Tensor(std::move(y));
  return record(std::move(y), {x, weight, bias},
                [x = Saved(x), weight = Saved(weight), statistics, rows](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&](auto tag) {
      using T = decltype(tag);
      T* out = dx.wants(0) ? dx.of(0).data<T>() : nullptr;
      const T* values = x.data<T>();
      with_sums<T>(rows, dx, 1, 2, [&](T* dweight, T* dbias, Index begin, Index end) {
        const Index at = begin * rows.n;
        kernels::kernels<T>().norm.layer_backward(out ? out + at : nullptr, dweight, dbias, dy.data<T>() + at,
                                                  values + at, statistics.data<T>() + 3 * begin,
                                                  data_or_null<T>(weight), end - begin, rows.n);
      });
    });
  });
}

Tensor rms_norm(const Tensor& input, const Tensor& scale, const Shape& normalized_shape, double eps) {
  const Rows rows = checked("rms_norm", input, scale, Tensor(), normalized_shape, eps);
  const DType dtype = promoted({input, scale});
  const Tensor x = cast(input, dtype), weight = scale.defined() ? cast(scale, dtype) : scale;
  Array y(x.shape(), dtype), statistics({rows.count}, dtype);
  visit_floating(dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, rows.count, grain_for(4 * rows.n), [&](Index begin, Index end) {
      kernels::kernels<T>().norm.rms_forward(y.data<T>() + begin * rows.n, statistics.data<T>() + begin,
                                             x.ptr<T>() + begin * rows.n, data_or_null<T>(weight), static_cast<T>(eps),
                                             end - begin, rows.n);
    });
  });
  if (!wants_gradient({x, weight})) return Tensor(std::move(y));
  return record(std::move(y), {x, weight},
                [x = Saved(x), weight = Saved(weight), statistics, rows](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&](auto tag) {
      using T = decltype(tag);
      T* out = dx.wants(0) ? dx.of(0).data<T>() : nullptr;
      const T* values = x.data<T>();
      with_sums<T>(rows, dx, 1, -1, [&](T* dweight, T*, Index begin, Index end) {
        const Index at = begin * rows.n;
        kernels::kernels<T>().norm.rms_backward(out ? out + at : nullptr, dweight, dy.data<T>() + at, values + at,
                                                statistics.data<T>() + begin, data_or_null<T>(weight), end - begin,
                                                rows.n);
      });
    });
  });
}

}  // namespace qkv::ops
