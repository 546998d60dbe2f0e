#include "ops/attention/composed.h"

#include <cmath>
#include <limits>

#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::AttentionProblem;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// f(batch, head, query, key, place) for all pairs.
template <class T, class F> void each_pair(const AttentionProblem<T>& p, F f) {
  Index at = 0;
  for (Index b = 0; b < p.batches; ++b)
    for (Index h = 0; h < p.heads; ++h)
      for (Index i = 0; i < p.queries; ++i)
        for (Index j = 0; j < p.keys; ++j) f(b, h, i, j, at++);
}

template <class T> Shape full_shape(const AttentionProblem<T>& p) { return {p.batches, p.heads, p.queries, p.keys}; }

// Which pairs are not excluded.
template <class T> Array allowed_pairs(const AttentionProblem<T>& p) {
  Array allowed(full_shape(p), DType::boolean);
  each_pair(p, [&](Index b, Index h, Index i, Index j, Index at) {
    const kernels::KeyRange range = kernels::keys_of(p, b, i, p.keys);
    bool& here = allowed.data<bool>()[at];
    here = j >= range.low && j < range.high && (p.mask.data == nullptr || *p.mask.at(b, h, i, j));
    here = here && (p.bias.data == nullptr || *p.bias.at(b, h, i, j) != -std::numeric_limits<T>::infinity());
  });
  return allowed;
}

template <class T> Array alibi(const AttentionProblem<T>& p) {
  Array bias(full_shape(p), dtype_v<T>);
  each_pair(p, [&](Index b, Index h, Index i, Index j, Index at) {
    bias.data<T>()[at] = -p.slopes[h] * static_cast<T>(std::abs(kernels::query_position(p, b, i) - j));
  });
  return bias;
}

// keep / (1 - p) for each weight.
template <class T> Array dropout_factors(const AttentionProblem<T>& p) {
  const Shape shape = full_shape(p);
  WeightDropout dropout;
  dropout.p = p.dropout.p;
  dropout.key = p.dropout.key;
  dropout.first_matrix = p.dropout.origin.batch * p.heads;
  if (p.dropout.keep.data != nullptr) {
    dropout.keep = Array(shape, DType::boolean);
    each_pair(p, [&](Index b, Index h, Index i, Index j, Index at) {
      dropout.keep.data<bool>()[at] = *p.dropout.keep.at(b, h, i, j);
    });
  }
  return dropped(Array::full(shape, dtype_v<T>, 1), dropout);
}

// (B, heads, L, size) of an input.
Tensor split(const Tensor& x, Index batches, Index heads, Index length, Index rows, Index size, bool packed) {
  if (!packed) return reshape(x, {batches, heads, length, size});
  const Tensor used = length == rows ? x : slice(x, 1, 0, length);
  return swapaxes(reshape(used, {batches, length, heads, size}), 1, 2);
}

// Keys are shared by heads / kv_heads query heads, whose rows stand below each other in a product.
template <class T> Tensor by_keys(const Tensor& x, const AttentionProblem<T>& p) {
  return reshape(x, {p.batches, p.kv_heads, p.heads / std::max<Index>(1, p.kv_heads) * p.queries, x.dim(-1)});
}

// q.k of all pairs. A key that is not finite is read by those pairs alone that are allowed, and makes them NaN.
template <class T>
Tensor products(const Tensor& q, const Tensor& keys, const Array& allowed, const AttentionProblem<T>& p) {
  const Tensor k = packed(keys);
  if (p.key_size == 0) return Tensor(Array::zeros(full_shape(p), dtype_v<T>));
  const Tensor zero = scalar_like(k, 0);
  Array finite({p.batches, p.kv_heads, p.keys, 1}, DType::boolean);
  for (Index row = 0; row < finite.numel(); ++row) {
    const T* x = k.ptr<T>() + row * p.key_size;
    finite.data<bool>()[row] = std::all_of(x, x + p.key_size, [](T value) { return std::isfinite(value); });
  }
  const Tensor dots = reshape(matmul(by_keys(q, p), transposed(where(Tensor(finite), k, zero))), full_shape(p));
  Array broken(full_shape(p), DType::boolean);
  const Index group = p.heads / std::max<Index>(1, p.kv_heads);
  each_pair(p, [&](Index b, Index h, Index, Index j, Index at) {
    broken.data<bool>()[at] =
        allowed.data<bool>()[at] && !finite.data<bool>()[(b * p.kv_heads + h / group) * p.keys + j];
  });
  return where(Tensor(broken), scalar_like(dots, std::numeric_limits<double>::quiet_NaN()), dots);
}

}  // namespace

template <class T> Tensors composed_attention(const Arguments<T>& call, const Tensors& inputs) {
  const AttentionProblem<T>& p = call.problem();
  const Geometry& g = call.geometry;
  const bool packed = g.packed;
  const Tensor q = split(inputs[0], p.batches, p.heads, p.queries, p.queries, p.key_size, packed);
  const Tensor k = split(inputs[1], p.batches, p.kv_heads, p.keys, g.key_rows, p.key_size, packed);
  const Tensor v = split(inputs[2], p.batches, p.kv_heads, p.keys, g.key_rows, p.value_size, packed);
  const Array pairs = allowed_pairs(p);
  const Tensor allowed(pairs);

  Tensor s = scaled(products(q, k, pairs, p), static_cast<double>(p.scale));  // (B, H, Lq, Lk)
  const double cap = static_cast<double>(p.softcap);
  if (cap > 0) s = scaled(tanh(scaled(s, 1 / cap)), cap);
  if (p.slopes != nullptr) s = add(s, Tensor(alibi(p)));
  if (inputs[3].defined()) {
    const Tensor bias = reshape(inputs[3], lifted(call.bias_shape(), g)),
                 none = compare(Compare::equal, bias, scalar_like(bias, -kInfinity));
    s = add(s, where(none, scalar_like(bias, 0), bias));
  }
  s = where(allowed, s, scalar_like(s, p.fill ? static_cast<double>(p.masked_value) : 0.0));

  // A sink is one more column, which every row may attend to.
  Tensor columns = s, open = p.fill ? Tensor(Array::full(s.shape(), DType::boolean, 1)) : allowed;
  if (inputs[4].defined()) {
    const Shape column{p.batches, p.heads, p.queries, 1};
    columns = concatenate({s, broadcast_to(reshape(inputs[4], {p.heads, 1, 1}), column)}, 3);
    open = concatenate({open, Tensor(Array::full(column, DType::boolean, 1))}, 3);
  }
  Tensor weights = masked_softmax(columns, {}, open, {});
  if (inputs[4].defined()) weights = slice(weights, 3, 0, p.keys);

  Tensor used = weights;
  if (p.dropout.p > 0) used = multiply(used, Tensor(dropout_factors(p)));
  Tensor out = reshape(weighted_values(by_keys(used, p), v), {p.batches, p.heads, p.queries, p.value_size});
  if (packed) out = swapaxes(out, 1, 2);
  Tensors results{reshape(out, g.output_shape())};
  if (call.with_weights) results.push_back(reshape(weights, g.weights_shape()));
  if (call.with_lse)
    results.push_back(reshape(logsumexp(where(open, columns, scalar_like(s, -kInfinity)), Axes{3}), g.lse_shape()));
  return results;
}

template Tensors composed_attention(const Arguments<float>&, const Tensors&);
template Tensors composed_attention(const Arguments<double>&, const Tensors&);

}  // namespace qkv::ops
