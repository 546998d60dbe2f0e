#include "nn/ragged_rows.h"

#include "ops/attention/ragged.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

struct KeptRows : AttentionRecord::Kept {
  KeptRows(const Array& q, const Array& k, const RaggedRows& r, ops::Heads h, ops::AttentionOptions o)
      : query(q), key(k), ragged(r), heads(h), options(std::move(o)) {
    options.dropout = 0;  // shown before dropout
  }

  Array weights() const override { return padded()->weights(); }
  Array scores() const override { return padded()->scores(); }
  Shape shape() const override { return {ragged.batch, heads.query_heads, ragged.length, ragged.length}; }
  Array measures(const ops::MeasureInputs& inputs) const override { return padded()->measures(inputs); }
  Array image(const ops::ImageOptions& image) const override { return padded()->image(image); }
  Array rows(const ops::HeadRows& wanted) const override { return padded()->rows(wanted); }
  std::shared_ptr<const KeptAttention> padded() const {
    const NoGrad off;
    const auto whole = [&](const Array& x) {
      return unpacked(Tensor(x.reshaped({x.dim(1), x.dim(2)})), ragged).data();
    };
    ops::AttentionOptions o = options;
    o.attn_mask = Tensor(kept_pairs(ragged));
    return AttentionRecord::always_of(whole(query), whole(key), heads, o, {});
  }

  const Array query, key;  // (1, R, M)
  const RaggedRows ragged;
  const ops::Heads heads;
  ops::AttentionOptions options;
};

}  // namespace

Array kept_pairs(const RaggedRows& rows) {
  Array both = Array::zeros({rows.batch, rows.length, rows.length}, DType::boolean);
  const std::int64_t* kept = rows.kept.data<std::int64_t>();
  Index begin = 0;
  for (const Index count : rows.counts) {
    for (Index i = begin; i < begin + count; ++i)
      for (Index j = begin; j < begin + count; ++j)
        both.data<bool>()[kept[i] * rows.length + kept[j] % rows.length] = true;
    begin += count;
  }
  return both;
}

Tensor kept_rows(const Tensor& x, const RaggedRows& rows) {
  return ops::embedding(ops::reshape(x, {rows.batch * rows.length, x.dim(2)}), rows.kept, {});
}

Tensor unpacked(const Tensor& x, const RaggedRows& rows) {
  const Index M = x.dim(1);
  // Row 0 of the table holds the zeros, so the numbers of rows that are kept start at 1.
  Array number = Array::zeros({rows.batch, rows.length}, DType::int64);
  for (Index r = 0; r < rows.kept.numel(); ++r) number.data<std::int64_t>()[rows.kept.data<std::int64_t>()[r]] = r + 1;
  return ops::embedding(ops::concatenate({Tensor(Array::zeros({1, M}, x.dtype())), x}, 0), number, {});
}

Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RaggedRows& rows, ops::Heads heads,
                        const ops::AttentionOptions& options) {
  const auto flat = [](const Tensor& x) { return ops::reshape(x, {x.dim(1), x.dim(2)}); };
  const Tensor y = ops::ragged_attention(flat(q), flat(k), flat(v), heads, rows.counts, rows.counts, options).output;
  return ops::reshape(y, {1, y.dim(0), y.dim(1)});
}

std::shared_ptr<const AttentionRecord::Kept> ragged_record(const Array& q, const Array& k, const RaggedRows& rows,
                                                           ops::Heads heads, const ops::AttentionOptions& options) {
  if (NoAttentionRecord::active()) return nullptr;
  return std::make_shared<const KeptRows>(q, k, rows, heads, options);
}

}  // namespace qkv::nn
