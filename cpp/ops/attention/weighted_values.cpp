// Attention weights times values: what every variant ends with that is not fused.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/batch_part.h"
#include "core/parallel.h"
#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/attention/allowed.h"
#include "ops/attention/geometry.h"
#include "ops/matmul/gemm.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

struct WeightedSizes {
  Index matrices, queries, keys, features;
};

// c (matrices, m, n) = a' @ b' for each matrix, or += in the way of gradient_gemm.
template <class T>
void products(T* c, const T* a, bool ta, const T* b, bool tb, Index matrices, Index m, Index n, Index k,
              std::optional<GradientSide> gradient = {}) {
  parallel_for(0, matrices, grain_for(m * n * std::max<Index>(k, 1) / 8), [&](Index begin, Index end) {
    const auto product = [&](auto... args) { gradient ? gradient_gemm<T>(*gradient, args...) : gemm<T>(args...); };
    for (Index i = begin; i < end; ++i)
      product(c + i * m * n, n, a + i * m * k, ta ? m : k, ta, b + i * k * n, tb ? k : n, tb, gradient.has_value(), m,
              n, k);
  });
}

// Values whose rows hold NaN or infinity have zeros instead; `keys` lists these rows, counted over all matrices. So a
// product with weights reads nothing of them, and what they contribute where their weight is not 0 is added apart.
struct FiniteValues {
  Array values;
  std::vector<Index> keys;
};

template <class T> FiniteValues finite_values(const Array& values, Index features) {
  FiniteValues result{values, {}};
  const auto& kernel = kernels::kernels<T>().weighted_values;
  const T* v = values.data<T>();
  if (kernel.finite(v, values.numel())) return result;
  result.values = values.clone();
  for (Index key = 0; key < values.numel() / features; ++key) {
    if (kernel.finite(v + key * features, features)) continue;
    result.keys.push_back(key);
    std::fill_n(result.values.data<T>() + key * features, features, T(0));
  }
  return result;
}

// For each weight that is not 0 of a key whose value is not finite: body(row, key, weight's place).
template <class T, class Body>
void for_infinite(const FiniteValues& v, const T* weights, const WeightedSizes& size, Body body) {
  for (const Index key : v.keys) {
    const Index matrix = key / size.keys, column = key % size.keys;
    for (Index row = matrix * size.queries; row < (matrix + 1) * size.queries; ++row)
      if (weights[row * size.keys + column] != 0) body(row, key, row * size.keys + column);
  }
}

}  // namespace

Array dropped(const Array& weights, const WeightDropout& dropout) {
  if (dropout.p == 0) return weights;
  Array y(weights.shape(), weights.dtype());
  const Index queries = weights.dim(-2), keys = weights.dim(-1);
  const Strides strides = dropout.keep.defined() ? broadcast_strides(dropout.keep.shape(), weights.shape()) : Strides{};
  const Shape rows(weights.shape().begin(), weights.shape().end() - 1);
  visit_floating(weights.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().weighted_values;
    const T scale = dropout.p < 1 ? static_cast<T>(1 / (1 - dropout.p)) : T(0);
    parallel_for(0, rows.numel(), grain_for(keys), [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        T* out = y.data<T>() + row * keys;
        const T* x = weights.data<T>() + row * keys;
        if (!dropout.keep.defined()) {
          kernel.drop(out, x, dropout.key, static_cast<std::uint64_t>(dropout.first_matrix + row / queries),
                      static_cast<std::uint64_t>(row % queries), dropout.p, keys);
          continue;
        }
        const bool* keep = dropout.keep.data<bool>() + offset_of(row, rows, strides);
        kernel.keep(out, x, keep, strides.back(), scale, keys);
      }
    });
  });
  return y;
}

void check_dropout(const AttentionOptions& o) {
  if (!(o.dropout >= 0 && o.dropout <= 1)) fail_value(o.operation, ": dropout_p must be from 0 to 1; got ", o.dropout);
  if (o.dropout_keep.defined() && o.dropout == 0)
    fail_value(o.operation, ": dropout_p must be above 0 because dropout_keep stands for its draw; got dropout_p = 0");
}

WeightDropout weight_dropout(const AttentionOptions& o, const Shape& weights) {
  check_dropout(o);
  WeightDropout result;
  result.p = o.dropout;
  if (o.dropout_keep.defined()) {
    check_broadcasts(o.operation, "dropout_keep", o.dropout_keep.shape(), weights, o.dropout_keep.shape());
    result.keep = o.dropout_keep;
  } else if (o.dropout_key) {
    result.key = *o.dropout_key;
    result.first_matrix = o.dropout_origin.batch * weights.product(1, weights.rank() - 2);
  } else if (o.dropout > 0) {
    result.key = default_generator().random64();
    result.first_matrix = outside_of_part(weights.product(0, weights.rank() - 2)).before;
  }
  return result;
}

Tensor infinite_rows(const Tensor& x) {
  const NoGrad quiet;
  const Tensor zeros = multiply(x, scalar_like(x, 0));  // NaN for these
  return cast(any(compare(Compare::not_equal, zeros, zeros), Axes{-1}, true), x.dtype());
}

namespace {

void derive_weighted(const WeightDropout& dropout, const Tensor& dy, TensorGradients& dx) {
  const Tensor &weights = dx.input(0), &values = dx.input(1);
  const Tensor factor(dropped(Array::full(weights.shape(), dy.dtype(), 1), dropout));
  if (dx.wants(1)) dx.add(1, matmul(transposed(multiply(weights, factor)), dy));
  // Values that are not finite reach those weights only that are not 0.
  if (dx.wants(0)) dx.add(0, multiply(products_where_read(dy, values, weights), factor));
}

}  // namespace

Tensor products_where_read(const Tensor& a, const Tensor& b, const Tensor& read) {
  const Tensor infinite = infinite_rows(b), zero = scalar_like(b, 0);
  const Tensor y = matmul(a, transposed(where(infinite, zero, b)));
  const Tensor reads(packed(read.data()).cast(DType::boolean).cast(y.dtype()));
  const Tensor nan = scalar_like(y, std::numeric_limits<double>::quiet_NaN());
  return where(multiply(reads, transposed(infinite)), nan, y);
}

Tensor weighted_values(const Tensor& given_weights, const Tensor& given_values, const WeightDropout& dropout) {
  const Tensor weights = packed(given_weights), values = packed(given_values);
  const WeightedSizes size{weights.shape().product(0, weights.rank() - 2), weights.dim(-2), weights.dim(-1),
                           values.dim(-1)};
  Shape shape = weights.shape();
  shape.back() = size.features;
  Array y(shape, weights.dtype());
  FiniteValues finite;
  visit_floating(weights.dtype(), [&]<class T>(T) {
    const Array w = dropped(weights.data(), dropout);
    finite = finite_values<T>(values.data(), size.features);
    products(y.data<T>(), w.data<T>(), false, finite.values.data<T>(), false, size.matrices, size.queries,
             size.features, size.keys);
    for_infinite(finite, weights.ptr<T>(), size, [&](Index row, Index key, Index at) {
      kernels::kernels<T>().elementwise.add_scaled(
          y.data<T>() + row * size.features, values.ptr<T>() + key * size.features, w.data<T>()[at], size.features);
    });
  });
  if (!wants_gradient({weights, values})) return Tensor(std::move(y));
  // A given mask is the caller's, who may change it.
  WeightDropout stream = dropout;
  stream.keep = {};
  const auto drawn = [stream, keep = Saved(dropout.keep)] {
    WeightDropout result = stream;
    result.keep = keep.get();
    return result;
  };
  return record_fused(
      std::move(y), {owned(weights), owned(values)},
      [finite_v = Saved(finite.values), keys = finite.keys, drawn, size](const Array& dy, Gradients& dx) {
        const Array &w = dx.input(0), &v = dx.input(1);
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const T* dout = dy.data<T>();
          if (dx.wants(0)) {
            Array dw(w.shape(), dy.dtype());
            products(dw.data<T>(), dout, false, finite_v.data<T>(), true, size.matrices, size.queries, size.keys,
                     size.features);
            for_infinite(FiniteValues{finite_v.get(), keys}, w.data<T>(), size, [&](Index row, Index key, Index at) {
              T sum = 0;
              for (Index c = 0; c < size.features; ++c)
                sum += dout[row * size.features + c] * v.data<T>()[key * size.features + c];
              dw.data<T>()[at] = sum;
            });
            dx.add(0, dropped(dw, drawn()));
          }
          if (dx.wants(1)) {
            const Array shares = dropped(w, drawn());
            products(dx.of(1).data<T>(), shares.data<T>(), true, dout, false, size.matrices, size.keys, size.features,
                     size.queries, GradientSide::right);
          }
        });
      },
      [drawn](const Tensor& dy, TensorGradients& dx) { derive_weighted(drawn(), dy, dx); });
}

}  // namespace qkv::ops
