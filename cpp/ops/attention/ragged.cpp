#include "ops/attention/ragged.h"

#include "autograd/views.h"
#include "core/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

struct JoinRows final : Step {
  explicit JoinRows(std::vector<Shape> s, DType d) : shapes(std::move(s)), dtype(d) {}
  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override {
    dx.add(0, [&] {
      Tensors parts;
      for (std::size_t i = 0; i < shapes.size(); ++i)
        parts.push_back(dys[i].defined() ? dys[i] : Tensor(Array::zeros(shapes[i], dtype)));
      return concatenate(parts, 0);
    });
  }
  const std::vector<Shape> shapes;
  const DType dtype;
};

// The first so many rows of x (R, M), the next ones and so on, which share its memory. The gradient is made once, not
// added up of as many arrays of its size.
Tensors rows_apart(const Tensor& given, const std::vector<Index>& counts) {
  const Tensor x = packed(given);
  std::vector<Array> parts;
  std::vector<Shape> shapes;
  Index row = 0;
  for (const Index count : counts) {
    shapes.push_back({count, x.dim(1)});
    parts.push_back(x.data().view({shapes.back(), x.data().strides(), row * x.dim(1)}));
    row += count;
  }
  if (wants_gradient({x})) return record_step(std::move(parts), {x}, std::make_unique<JoinRows>(shapes, x.dtype()));
  return {parts.begin(), parts.end()};
}

}  // namespace

RaggedOutputs ragged_attention(const Tensor& query, const Tensor& key, const Tensor& value, Heads heads,
                               const std::vector<Index>& queries, const std::vector<Index>& keys,
                               const AttentionOptions& options, const FormulaFrom& formula) {
  // Pieces of equal lengths that follow each other are one batch.
  std::vector<Index> sizes, query_rows, key_rows;
  for (std::size_t first = 0, last = 0; first < queries.size(); first = last) {
    while (last < queries.size() && queries[last] == queries[first] && keys[last] == keys[first]) ++last;
    sizes.push_back(static_cast<Index>(last - first));
    query_rows.push_back(sizes.back() * queries[first]);
    key_rows.push_back(sizes.back() * keys[first]);
  }
  const Tensors q = rows_apart(query, query_rows), k = rows_apart(key, key_rows), v = rows_apart(value, key_rows);
  RaggedOutputs all;
  Tensors outputs, lses;
  Index piece = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    throw_if_interrupted();
    const auto batch = [n = sizes[i]](const Tensor& x) { return reshape(x, {n, x.dim(0) / n, x.dim(1)}); };
    AttentionOptions own = options;
    if (own.distance_bias.defined()) {
      const Index middle = own.distance_bias.dim(0) / 2, length = query_rows[i] / sizes[i];
      own.distance_bias = slice(own.distance_bias, 0, middle + 1 - length, middle + length);
    }
    if (formula) own.formula_source = formula(piece);
    piece += sizes[i];
    const AttentionOutputs y = packed_attention(batch(q[i]), batch(k[i]), batch(v[i]), heads, own);
    outputs.push_back(reshape(y.output, {query_rows[i], y.output.dim(2)}));
    if (options.return_lse) lses.push_back(reshape(swapaxes(y.lse, 0, 1), {heads.query_heads, query_rows[i]}));
    for (Index n = 0; options.return_weights && n < sizes[i]; ++n)
      all.weights.push_back(
          reshape(slice(y.weights, 0, n, n + 1), {heads.query_heads, y.weights.dim(2), y.weights.dim(3)}));
  }
  const auto joined = [](const Tensors& parts, Index axis, const Shape& none, DType dtype) {
    if (parts.empty()) return Tensor(Array::zeros(none, dtype));
    return parts.size() == 1 ? parts.front() : concatenate(parts, axis);
  };
  const DType dtype = promoted({query, key, value});
  all.output = joined(outputs, 0, {0, heads.query_heads * (value.dim(1) / heads.kv_heads)}, dtype);
  if (options.return_lse) all.lse = joined(lses, 1, {heads.query_heads, 0}, dtype);
  return all;
}

}  // namespace qkv::ops
