// Layer and root-mean-square normalisation over the last axes.
#include <algorithm>

#include "core/in_range.h"
#include "ops/reductions.h"

namespace qkv::ops {
namespace {

struct Rows {
  Index count, n;
  bool centred;  // around the mean; rms_norm's are not
};

Rows checked(const char* operation, bool centred, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Shape& normalized, double eps) {
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
  return {x.shape().product(0, x.rank() - normalized.rank()), normalized.numel(), centred};
}

template <class T> const T* data_or_null(const Array& x) { return x.defined() ? x.data<T>() : nullptr; }
template <class T> const T* data_or_null(const Tensor& t) { return t.defined() ? t.ptr<T>() : nullptr; }

// At most 64 pieces of rows, for any number of threads: each sums the gradients of weight and bias for itself.
Index rows_per_piece(const Rows& rows) { return std::max((rows.count + 63) / 64, grain_for(8 * rows.n)); }

// body(dweight, dbias, begin, end) for pieces of rows with sums of their own, which are then added in order. Weight and
// bias are inputs 1 and 2.
template <class T, class Body> void with_sums(const Rows& rows, Gradients& dx, Body body) {
  const Index grain = rows_per_piece(rows), pieces = (rows.count + grain - 1) / grain, n = rows.n;
  const auto sums_of = [&](Index input) {
    return Array::zeros(dx.wants(input) ? Shape{pieces, n} : Shape{0, n}, dtype_v<T>);
  };
  const Array dweights = sums_of(1), dbiases = sums_of(2);
  parallel_for(0, rows.count, grain, [&](Index begin, Index end) {
    const Index at = begin / grain * n;
    body(dx.wants(1) ? dweights.data<T>() + at : nullptr, dx.wants(2) ? dbiases.data<T>() + at : nullptr, begin, end);
  });
  const auto add_up = [&](const Array& parts, Index input) {
    for (Index piece = 0; piece < parts.dim(0); ++piece)
      kernels::kernels<T>().elementwise.add_scaled(dx.of(input).data<T>(), parts.data<T>() + piece * n, T(1), n);
  };
  add_up(dweights, 1);
  add_up(dbiases, 2);
}

// The inputs are x, weight and bias.
auto pull_back(const Array& statistics, const Rows& rows) {
  return [statistics, rows](const Array& dy, Gradients& dx) {
    visit_floating(dy.dtype(), [&]<class T>(T) {
      const auto& kernel = kernels::kernels<T>().norm;
      const auto backward = rows.centred ? kernel.layer_backward : kernel.rms_backward;
      const Array gradient = dx.wants(0) ? dx.fresh(0) : Array();
      T* out = gradient.defined() ? gradient.data<T>() : nullptr;
      const T *values = dx.input(0).data<T>(), *weight = data_or_null<T>(dx.input(1));
      with_sums<T>(rows, dx, [&](T* dweight, T* dbias, Index begin, Index end) {
        const Index at = begin * rows.n;
        backward(out ? out + at : nullptr, dweight, dbias, dy.data<T>() + at, values + at,
                 statistics.data<T>() + statistics.dim(1) * begin, weight, end - begin, rows.n);
      });
      if (gradient.defined()) dx.add(0, gradient);
    });
  };
}

// The same of recorded operations.
auto composed(const Rows& rows, double eps) {
  return [rows, eps](const Tensors& inputs) {
    const auto row_mean = [](const Tensor& x) { return mean(x, Axes{1}, true); };
    const Tensor x = reshape(inputs[0], {rows.count, rows.n}), &weight = inputs[1], &bias = inputs[2];
    const Tensor distance = rows.centred ? subtract(x, row_mean(x)) : x;
    const Tensor square = row_mean(multiply(distance, distance));
    Tensor y = divide(distance, unary(kernels::Unary::square_root, add(square, scalar_like(square, eps))));
    if (weight.defined()) y = multiply(y, reshape(weight, {rows.n}));
    if (bias.defined()) y = add(y, reshape(bias, {rows.n}));
    return reshape(y, inputs[0].shape());
  };
}

// Of input + residual, if there is one.
Tensor normalised(const char* operation, bool centred, const Tensor& input, const Tensor& residual, const Tensor& scale,
                  const Tensor& offset, const Shape& normalized_shape, double eps) {
  const Rows rows = checked(operation, centred, input, scale, offset, normalized_shape, eps);
  if (residual.defined() && residual.shape() != input.shape())
    fail_value(operation, ": residual must have the shape of x ", input.shape(), "; got residual ", residual.shape());
  const DType dtype = promoted({input, residual, scale, offset});
  const auto converted = [dtype](const Tensor& t) { return t.defined() ? packed_as(t, dtype) : t; };
  const Tensor x = converted(input), r = converted(residual), weight = converted(scale), bias = converted(offset);
  const bool recording = wants_gradient({x, r, weight, bias});
  Array y(x.shape(), dtype), statistics({rows.count, centred ? 3 : 1}, dtype);
  const Array sum = r.defined() && recording ? Array(x.shape(), dtype) : y;
  visit_floating(dtype, [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().norm;
    const T added = in_range_above_zero<T>(operation, "eps", eps), *factor = data_or_null<T>(weight),
            *shift = data_or_null<T>(bias);
    parallel_for(0, rows.count, grain_for(4 * rows.n), [&](Index begin, Index end) {
      const Index at = begin * rows.n, count = end - begin;
      T *to = y.data<T>() + at, *kept = statistics.data<T>() + statistics.dim(1) * begin;
      const T* from = x.ptr<T>() + at;
      if (r.defined())
        kernel.add_layer_forward(to, sum.data<T>() + at, kept, from, r.ptr<T>() + at, factor, shift, added, count,
                                 rows.n);
      else if (centred) kernel.layer_forward(to, kept, from, factor, shift, added, count, rows.n);
      else kernel.rms_forward(to, kept, from, factor, added, count, rows.n);
    });
  });
  if (!recording) return Tensor(std::move(y));
  const auto both = [](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, dy);
    dx.add(1, dy);
  };
  const Tensor whole = !r.defined()             ? owned(x)
                       : wants_gradient({x, r}) ? record(Array(sum), {x, r}, both)
                                                : Tensor(sum);
  return record_fused(std::move(y), {whole, owned(weight), bias}, pull_back(statistics, rows),
                      derived_from(composed(rows, eps)));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Shape& normalized_shape,
                  double eps) {
  return normalised("layer_norm", true, x, {}, weight, bias, normalized_shape, eps);
}

Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      const Shape& normalized_shape, double eps) {
  return normalised("add_layer_norm", true, x, residual, weight, bias, normalized_shape, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, const Shape& normalized_shape, double eps) {
  return normalised("rms_norm", false, x, {}, weight, {}, normalized_shape, eps);
}

Tensor normalize(const Tensor& input, double p, const std::optional<Axes>& axes, double eps) {
  if (!(p > 0)) fail_value("normalize: p must be a positive number or inf because it is the order of a norm; got ", p);
  if (!(eps > 0)) fail_value("normalize: eps must be a positive number because zeros are divided by it; got ", eps);
  const Tensor x = floating(input);
  reduced_axes("normalize", x.shape(), axes, true);  // checks them
  return divide(x, binary(Binary::maximum, vector_norm(x, p, axes, true), scalar_like(x, eps)));
}

}  // namespace qkv::ops
