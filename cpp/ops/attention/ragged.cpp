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

// The lengths of pieces that begin at these rows, of so many in all.
std::vector<Index> lengths_between(const char* operation, const char* name, const char* axis, const Array& begins,
                                   const Tensor& x) {
  if (!begins.defined()) fail_value(operation, ": ", name, " must be given because the other is; got None");
  std::vector<Index> lengths;
  const Array own = cloned(begins);  // others could change what was checked
  const std::int64_t* at = own.data<std::int64_t>();
  bool fits = begins.rank() == 1 && begins.numel() > 0 && at[0] == 0 && at[begins.numel() - 1] == x.dim(0);
  for (Index i = 0; fits && i + 1 < begins.numel(); ++i) {
    lengths.push_back(at[i + 1] - at[i]);
    fits = lengths.back() >= 0;
  }
  if (!fits)
    fail_value(operation, ": ", name, " must be (B + 1,) numbers that rise from 0 to ", axis, " = ", x.dim(0), "; got ",
               name, " ", begins.shape(),
               begins.numel() > 0 ? text(" from ", at[0], " to ", at[begins.numel() - 1]) : "");
  return lengths;
}

}  // namespace

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

RaggedOutputs ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Array& query_begins,
                               const Array& key_begins, const AttentionOptions& o, const FormulaFrom& formula) {
  const char* name = o.operation;
  const char* excluded = o.attn_mask.defined()      ? "attn_mask"
                         : o.valid_lens.defined()   ? "valid_lens"
                         : o.q_offset.defined()     ? "q_offset"
                         : o.dropout_keep.defined() ? "dropout_keep"
                                                    : nullptr;
  if (excluded != nullptr)
    fail_value(name, ": ", excluded, " must be None because cu_seqlens_q and cu_seqlens_k cut the rows; got both");
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3 || k.dim(2) != q.dim(2) || v.dim(0) != k.dim(0) ||
      v.dim(1) != k.dim(1))
    fail_value(name, ": query, key and value must be (R, H, D), (S, Hkv, D) and (S, Hkv, Dv) beside cu_seqlens_q; got ",
               q.shape(), ", ", k.shape(), " and ", v.shape());
  const Heads heads{q.dim(1), k.dim(1), -1};
  if (heads.kv_heads < 1 || heads.query_heads % heads.kv_heads != 0 ||
      (heads.kv_heads != heads.query_heads && !o.enable_gqa))
    fail_value(name, ": key must have the H = ", heads.query_heads,
               " heads of query, or with enable_gqa a divisor of it; got ", heads.kv_heads);
  const auto queries = lengths_between(name, "cu_seqlens_q", "R", query_begins, q),
             keys = lengths_between(name, "cu_seqlens_k", "S", key_begins, k);
  if (queries.size() != keys.size())
    fail_value(name, ": cu_seqlens_k must be (B + 1,) = (", queries.size() + 1, ",) to match cu_seqlens_q; got ",
               "cu_seqlens_k ", key_begins.shape());
  const auto flat = [dtype = promoted({q, k, v})](const Tensor& x) {
    return reshape(cast(x, dtype), {x.dim(0), x.dim(1) * x.dim(2)});
  };
  RaggedOutputs y = ragged_attention(flat(q), flat(k), flat(v), heads, queries, keys, o, formula);
  y.output = reshape(y.output, {q.dim(0), q.dim(1), v.dim(2)});
  return y;
}

}  // namespace qkv::ops
