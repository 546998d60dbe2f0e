#include "ops/attention/composed.h"

#include <limits>

#include "ops/attention/allowed.h"
#include "ops/attention/normalizer.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// (B, H, L, size) of an input of the kernels, keys and values repeated for the query heads that share them.
Tensor by_query_heads(const Tensor& x, const Geometry& g, Index heads, Index length, Index rows, Index size) {
  const Tensor used = length == rows ? x : slice(x, 1, 0, length);
  const Tensor y = g.packed ? swapaxes(reshape(used, {g.batches, length, heads, size}), 1, 2)
                            : reshape(x, {g.batches, heads, length, size});
  return heads == g.heads ? y : repeat(y, g.heads / std::max<Index>(1, heads), 1);
}

// Pairs that the options allow, except for -inf that a formula makes of a score, in the shape of scores (B, H, Lq, Lk).
Tensor allowed_pairs(const Shape& shape, DType dtype, const AttentionOptions& o) {
  const Tensor pairs(Allowed(shape, dtype, o).array());
  if (o.formula == nullptr) return pairs;
  const Tensor mask = formula_mask(*o.formula, {shape.dim(0), shape.dim(1), shape.dim(2), shape.dim(3)}, dtype);
  return mask.defined() ? bitwise(Bitwise::bit_and, pairs, mask) : pairs;
}

template <class T> AttentionOptions with_inputs(const Arguments<T>& call, const Tensors& inputs) {
  AttentionOptions o = call.options;
  if (inputs[3].defined()) o.sinks = inputs[3];
  if (o.formula == nullptr) return o;
  auto formula = std::make_shared<Formula>(*o.formula);
  for (std::size_t i = 0; i < formula->leaves.size() && call.kLeaves + i < inputs.size(); ++i)
    if (inputs[call.kLeaves + i].defined()) formula->leaves[i] = inputs[call.kLeaves + i];
  if (const auto& bias = call.bias(); bias && !o.attn_mask.defined())
    o.attn_mask = not_excluded(Tensor(formula->leaves[bias->leaf].data().view(bias->places)));
  o.formula = std::move(formula);
  return o;
}

// scale * q.k of all pairs, or of those that `read` holds, if it is defined.
template <class T> Tensor scaled_scores(const Arguments<T>& call, const Tensors& inputs, const Tensor& read) {
  const Geometry& g = call.geometry;
  if (g.key_size == 0) return Tensor(Array::zeros({g.batches, g.heads, g.queries, g.keys}, dtype_v<T>));
  const Tensor q = by_query_heads(inputs[0], g, g.heads, g.queries, g.queries, g.key_size),
               k = by_query_heads(inputs[1], g, g.kv_heads, g.keys, g.key_rows, g.key_size);
  const Tensor dots = read.defined() ? products_where_read(q, k, read) : matmul(q, swapaxes(k, -1, -2));
  return scaled(dots, static_cast<double>(call.problem().scale));
}

}  // namespace

Tensor final_scores(const Tensor& scores, const AttentionOptions& o) {
  if (o.formula != nullptr) return formula_scores(*o.formula, scores);
  return o.has_bias() ? add(scores, cast(o.attn_mask, scores.dtype())) : scores;
}

AttentionOutputs composed_attention(const Tensor& scores, const Tensor& values, const AttentionOptions& o) {
  const WeightDropout dropout = weight_dropout(o, scores.shape());
  const DType dtype = promoted({scores, values});
  const Index keys = scores.dim(-1);
  const Tensor given = cast(scores, dtype);
  Tensor s = o.changes == nullptr ? given : o.changes->scores(final_scores(given, o));
  AttentionOutputs y;
  const bool by_formula = o.formula != nullptr, by_softmax = o.normalizer == Normalizer::softmax;
  if (by_softmax && !o.sinks.defined() && !o.return_lse && !by_formula && o.changes == nullptr) {
    y.weights = masked_softmax(s, o);
  } else {
    Tensor open = allowed_pairs(s.shape(), dtype, o);
    if (o.changes == nullptr) s = with_bias(s, o.has_bias() ? o.attn_mask : Tensor());
    if (by_formula && o.changes == nullptr) s = formula_scores(*o.formula, where(open, s, scalar_like(s, 0)));
    if (by_formula && o.formula->program->excludes) open = bitwise(Bitwise::bit_and, open, not_excluded(s));
    s = where(open, s, scalar_like(s, o.masked_value.value_or(0)));
    if (o.masked_value) open = Tensor(Array::full(s.shape(), DType::boolean, 1));
    if (o.sinks.defined()) {  // one more column, which every row may attend to
      Shape column = s.shape();
      column.back() = 1;
      s = concatenate({s, broadcast_to(reshape(cast(o.sinks, dtype), {o.sinks.dim(0), 1, 1}), column)}, s.rank() - 1);
      open = concatenate({open, Tensor(Array::full(column, DType::boolean, 1))}, s.rank() - 1);
    }
    if (by_softmax) {
      const Tensor none = scalar_like(s, -std::numeric_limits<double>::infinity());
      y.lse = logsumexp(where(open, s, none), Axes{-1});
    }
    y.weights = normalized(o.normalizer, s, open);
    if (o.sinks.defined()) y.weights = slice(y.weights, -1, 0, keys);
    if (o.changes != nullptr) y.weights = o.changes->weights(y.weights);
  }
  y.output = weighted_values(y.weights, cast(values, dtype), dropout);
  return y;
}

template <class T> Tensors composed_attention(const Arguments<T>& call, const Tensors& inputs) {
  const Geometry& g = call.geometry;
  const Tensor v = by_query_heads(inputs[2], g, g.kv_heads, g.keys, g.key_rows, g.value_size);
  const AttentionOptions o = with_inputs(call, inputs);
  const Shape shape{g.batches, g.heads, g.queries, g.keys};
  const Tensor read = o.changes == nullptr ? allowed_pairs(shape, dtype_v<T>, o) : Tensor();
  const AttentionOutputs y = composed_attention(scaled_scores(call, inputs, read), v, o);
  Tensors results{reshape(g.packed ? swapaxes(y.output, 1, 2) : y.output, g.output_shape())};
  if (o.return_weights) results.push_back(reshape(y.weights, g.weights_shape()));
  if (o.return_lse) results.push_back(reshape(y.lse, g.lse_shape()));
  return results;
}

template <class T> Tensor composed_scores(const Arguments<T>& call, const Tensors& inputs) {
  return final_scores(scaled_scores(call, inputs, Tensor()), with_inputs(call, inputs));
}

template Tensor composed_scores(const Arguments<float>&, const Tensors&);
template Tensor composed_scores(const Arguments<double>&, const Tensors&);
template Tensors composed_attention(const Arguments<float>&, const Tensors&);
template Tensors composed_attention(const Arguments<double>&, const Tensors&);

}  // namespace qkv::ops
