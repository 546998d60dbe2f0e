// Layer and root-mean-square normalisation over the last axes.
#include <algorithm>

#include "core/in_range.h"
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

template <class T> const T* data_or_null(const Array& x) { return x.defined() ? x.data<T>() : nullptr; }
template <class T> const T* data_or_null(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

// At most 64 pieces of rows, whatever the number of threads: each sums the gradients of weight and bias for itself.
Index rows_per_piece(const Rows& rows) { return std::max((rows.count + 63) / 64, grain_for(8 * rows.n)); }

// body(dweight, dbias, begin, end) for pieces of rows with sums of their own, which are then added in order.
template <class T, class Body> void with_sums(const Rows& rows, Gradients& dx, Index weight, Index bias, Body body) {
  const bool wants_weight = dx.wants(weight), wants_bias = bias >= 0 && dx.wants(bias);
  const Index grain = rows_per_piece(rows), pieces = (rows.count + grain - 1) / grain, n = rows.n;
  const auto size = [&](bool wanted) { return wanted ? Shape{pieces, n} : Shape{0, n}; };
  const Array dweights = Array::zeros(size(wants_weight), dtype_v<T>),
              dbiases = Array::zeros(size(wants_bias), dtype_v<T>);
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

namespace {

// Rows of the normalised axes.
Tensor as_rows(const Tensor& x, const Rows& rows) { return reshape(x, {rows.count, rows.n}); }

Tensor row_mean(const Tensor& x) { return mean(x, Axes{1}, true); }

// layer_norm, of recorded operations.
auto derive_layer(const Rows& rows, double eps) {
  return [rows, eps](const Tensor& dy, TensorGradients& dx) {
    derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
      const Tensor x = as_rows(inputs[0], rows), &weight = inputs[1], &bias = inputs[2];
      const Tensor centred = subtract(x, row_mean(x)), variance = row_mean(multiply(centred, centred));
      Tensor y = divide(centred, unary(kernels::Unary::square_root, add(variance, scalar_like(variance, eps))));
      if (weight.defined()) y = multiply(y, reshape(weight, {rows.n}));
      if (bias.defined()) y = add(y, reshape(bias, {rows.n}));
      return {reshape(y, inputs[0].shape())};
    });
  };
}

// The inputs are x, weight and bias.
auto layer_pull_back(const Array& statistics, const Rows& rows) {
  return [statistics, rows](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&]<class T>(T) {
      const Array gradient = dx.wants(0) ? dx.fresh(0) : Array();
      T* out = gradient.defined() ? gradient.data<T>() : nullptr;
      const T *values = dx.input(0).data<T>(), *weight = data_or_null<T>(dx.input(1));
      with_sums<T>(rows, dx, 1, 2, [&](T* dweight, T* dbias, Index begin, Index end) {
        const Index at = begin * rows.n;
        kernels::kernels<T>().norm.layer_backward(out ? out + at : nullptr, dweight, dbias, dy.data<T>() + at,
                                                  values + at, statistics.data<T>() + 3 * begin, weight, end - begin,
                                                  rows.n);
      });
      if (gradient.defined()) dx.add(0, gradient);
    });
  };
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Tensor& scale, const Tensor& offset, const Shape& normalized_shape,
                  double eps) {
  const Rows rows = checked("layer_norm", input, scale, offset, normalized_shape, eps);
  const DType dtype = promoted({input, scale, offset});
  const Tensor x = packed_as(input, dtype), weight = scale.defined() ? packed_as(scale, dtype) : scale;
  const Tensor bias = offset.defined() ? packed_as(offset, dtype) : offset;
  Array y(x.shape(), dtype), statistics({rows.count, 3}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    const T added = in_range_above_zero<T>("layer_norm", "eps", eps);
    parallel_for(0, rows.count, grain_for(4 * rows.n), [&](Index begin, Index end) {
      kernels::kernels<T>().norm.layer_forward(y.data<T>() + begin * rows.n, statistics.data<T>() + 3 * begin,
                                               x.ptr<T>() + begin * rows.n, data_or_null<T>(weight),
                                               data_or_null<T>(bias), added, end - begin, rows.n);
    });
  });
  if (!wants_gradient({x, weight, bias})) return Tensor(std::move(y));
  return record_fused(std::move(y), {owned(x), owned(weight), bias}, layer_pull_back(statistics, rows),
                      derive_layer(rows, eps));
}

Tensor add_layer_norm(const Tensor& input, const Tensor& residual, const Tensor& scale, const Tensor& offset,
                      const Shape& normalized_shape, double eps) {
  const Rows rows = checked("add_layer_norm", input, scale, offset, normalized_shape, eps);
  if (residual.shape() != input.shape())
    fail_value("add_layer_norm: residual must have the shape of x ", input.shape(), "; got residual ",
               residual.shape());
  const DType dtype = promoted({input, residual, scale, offset});
  const Tensor x = packed_as(input, dtype), r = packed_as(residual, dtype),
               weight = scale.defined() ? packed_as(scale, dtype) : scale;
  const Tensor bias = offset.defined() ? packed_as(offset, dtype) : offset;
  const bool recording = wants_gradient({x, r, weight, bias});
  Array y(x.shape(), dtype), statistics({rows.count, 3}, dtype);
  const Array sum = recording ? Array(x.shape(), dtype) : y;
  visit_floating(dtype, [&]<class T>(T) {
    const T added = in_range_above_zero<T>("add_layer_norm", "eps", eps);
    parallel_for(0, rows.count, grain_for(5 * rows.n), [&](Index begin, Index end) {
      const Index at = begin * rows.n;
      kernels::kernels<T>().norm.add_layer_forward(
          y.data<T>() + at, sum.data<T>() + at, statistics.data<T>() + 3 * begin, x.ptr<T>() + at, r.ptr<T>() + at,
          data_or_null<T>(weight), data_or_null<T>(bias), added, end - begin, rows.n);
    });
  });
  if (!recording) return Tensor(std::move(y));
  const Tensor added = wants_gradient({x, r}) ? record(sum, {x, r},
                                                       [](const Tensor& dy, TensorGradients& dx) {
                                                         dx.add(0, dy);
                                                         dx.add(1, dy);
                                                       })
                                              : Tensor(sum);
  return record_fused(std::move(y), {added, owned(weight), bias}, layer_pull_back(statistics, rows),
                      derive_layer(rows, eps));
}

Tensor rms_norm(const Tensor& input, const Tensor& scale, const Shape& normalized_shape, double eps) {
  const Rows rows = checked("rms_norm", input, scale, Tensor(), normalized_shape, eps);
  const DType dtype = promoted({input, scale});
  const Tensor x = packed_as(input, dtype), weight = scale.defined() ? packed_as(scale, dtype) : scale;
  Array y(x.shape(), dtype), statistics({rows.count}, dtype);
  visit_floating(dtype, [&]<class T>(T) {
    const T added = in_range_above_zero<T>("rms_norm", "eps", eps);
    parallel_for(0, rows.count, grain_for(4 * rows.n), [&](Index begin, Index end) {
      kernels::kernels<T>().norm.rms_forward(y.data<T>() + begin * rows.n, statistics.data<T>() + begin,
                                             x.ptr<T>() + begin * rows.n, data_or_null<T>(weight), added, end - begin,
                                             rows.n);
    });
  });
  if (!wants_gradient({x, weight})) return Tensor(std::move(y));
  return record_fused(
      std::move(y), {owned(x), owned(weight)},
      [statistics, rows](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const Array gradient = dx.wants(0) ? dx.fresh(0) : Array();
          T* out = gradient.defined() ? gradient.data<T>() : nullptr;
          const T *values = dx.input(0).data<T>(), *factors = data_or_null<T>(dx.input(1));
          with_sums<T>(rows, dx, 1, -1, [&](T* dweight, T*, Index begin, Index end) {
            const Index at = begin * rows.n;
            kernels::kernels<T>().norm.rms_backward(out ? out + at : nullptr, dweight, dy.data<T>() + at, values + at,
                                                    statistics.data<T>() + begin, factors, end - begin, rows.n);
          });
          if (gradient.defined()) dx.add(0, gradient);
        });
      },
      [rows, eps](const Tensor& dy, TensorGradients& dx) {
        derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
          const Tensor values = as_rows(inputs[0], rows), square = row_mean(multiply(values, values));
          Tensor result = divide(values, unary(kernels::Unary::square_root, add(square, scalar_like(square, eps))));
          if (inputs[1].defined()) result = multiply(result, reshape(inputs[1], {rows.n}));
          return {reshape(result, inputs[0].shape())};
        });
      });
}

Tensor normalize(const Tensor& input, double p, const std::optional<Axes>& axes, double eps) {
  if (!(p > 0)) fail_value("normalize: p must be a positive number or inf because it is the order of a norm; got ", p);
  if (!(eps > 0)) fail_value("normalize: eps must be a positive number because zeros are divided by it; got ", eps);
  const Tensor x = floating(input);
  Tensor length;
  if (p == 2) {
    length = safe_sqrt(sum(multiply(x, x), axes, true));
  } else if (p == 1) {
    length = sum(unary(Unary::absolute, x), axes, true);
  } else if (std::isinf(p)) {
    length = max(unary(Unary::absolute, x), axes, true);
  } else {
    const Tensor powers = binary(Binary::power, unary(Unary::absolute, x), scalar_like(x, p));
    length = binary(Binary::power, sum(powers, axes, true), scalar_like(x, 1 / p));
  }
  return divide(x, binary(Binary::maximum, length, scalar_like(x, eps)));
}

}  // namespace qkv::ops
