#include "nn/attention.h"

#include <cmath>

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::nn {

thread_local bool NoAttentionRecord::active_ = false;

namespace {

using Kept = AttentionRecord::Kept;

struct KeptWeights : Kept {
  explicit KeptWeights(Array given) : shown(std::move(given)) {}
  Array weights() const override { return shown; }
  const Array shown;
};

struct KeptProjections : Kept {
  KeptProjections(const Array& q, const Array& k, ops::Heads h, ops::AttentionOptions o, AttentionRecord::Axes a)
      : query(q), key(k), heads(h), options(std::move(o)), axes(a) {}
  Array weights() const override;
  const Array query, key;
  const ops::Heads heads;
  const ops::AttentionOptions options;
  const AttentionRecord::Axes axes;
};

Array shown(const Array& weights, AttentionRecord::Axes axes) {
  Shape shape = weights.shape();
  if (shape.rank() == 4 && !axes.heads) shape.erase(shape.begin() + 1);
  if (!axes.batch) shape.erase(shape.begin());
  return weights.reshaped(shape);
}

Array KeptProjections::weights() const {
  return shown(ops::packed_attention_weights(query, key, heads, options), axes);
}

// Memory of the caller's may change before the weights are read.
Array own(const Array& array) { return array.defined() && array.buffer()->borrowed() ? array.clone() : array; }

}  // namespace

Array snapshot(const Array& array) { return array.defined() && !NoAttentionRecord::active() ? array.clone() : array; }

std::shared_ptr<const Kept> AttentionRecord::of(const Array& query, const Array& key, ops::Heads heads,
                                                ops::AttentionOptions options, Axes axes) {
  if (NoAttentionRecord::active()) return nullptr;
  options.valid_lens = own(options.valid_lens);
  if (const Tensor& mask = options.attn_mask; mask.defined())
    options.attn_mask = Tensor(mask.requires_grad() && mask.is_leaf() ? mask.data().clone() : own(mask.data()));
  options.dropout = 0;  // shown before dropout
  options.dropout_keep = {};
  options.generator = nullptr;
  return std::make_shared<const KeptProjections>(query, key, heads, std::move(options), axes);
}

std::shared_ptr<const Kept> AttentionRecord::of(const Array& weights, Axes axes) {
  if (NoAttentionRecord::active() || !weights.defined()) return nullptr;
  return std::make_shared<const KeptWeights>(shown(weights, axes));
}

Array AttentionRecord::weights() const {
  const std::shared_ptr<const Kept> kept = kept_.get();
  if (!kept) return {};
  Array weights = kept->weights();
  // The next reader finds them computed.
  if (dynamic_cast<const KeptWeights*>(kept.get()) == nullptr)
    kept_.replace(kept, std::make_shared<const KeptWeights>(weights));
  return weights;
}

Attention::Attention(double p, std::optional<double> masked) : dropout(p), masked_value(masked) {
  if (!(p >= 0 && p <= 1)) fail_value("Attention: dropout must be from 0 to 1; got ", p);
  if (masked && std::isnan(*masked)) fail_value("Attention: masked_value must be a number; got nan");
}

Config Attention::config() const {
  return {{"dropout", dropout}, {"masked_value", masked_value ? Value(*masked_value) : Value()}};
}

ops::AttentionOptions Attention::options(const Restriction& restriction) const {
  ops::AttentionOptions o;
  o.operation = "Attention";
  o.attn_mask = without_heads(restriction.attn_mask);
  o.valid_lens = restriction.valid_lens;
  o.masked_value = masked_value;
  o.dropout = training() || restriction.dropout_keep.defined() ? dropout : 0;
  if (o.dropout > 0) o.dropout_keep = restriction.dropout_keep;
  return o;
}

void Attention::check_inputs(const Tensor& queries, const Tensor& keys, const Tensor& values) const {
  const auto check = [&](const char* name, const Tensor& x) {
    if (x.rank() != 3) fail_value(class_name(), ": ", name, " must be (B, L, M); got ", name, " ", x.shape());
    if (x.dim(0) != queries.dim(0))
      fail_value(class_name(), ": ", name, " must have the batch size of queries ", queries.shape(), "; got ", name,
                 " ", x.shape());
  };
  check("queries", queries);
  check("keys", keys);
  check("values", values);
  if (keys.dim(1) != values.dim(1))
    fail_value(class_name(), ": values must be (B, Lk, Dv) with Lk = ", keys.dim(1), " to match keys ", keys.shape(),
               "; got values ", values.shape());
}

void Attention::prepare(const Tensor&, const Tensor&, const Tensor&) {}

Tensor Attention::score(const Tensor&, const Tensor&) {
  throw std::runtime_error("Attention: score(queries, keys) must be defined by a subclass; it gives (B, Lq, Lk)");
}

Tensor Attention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                         const Restriction& restriction) {
  check_inputs(queries, keys, values);
  const Tensor scores = score(queries, keys);
  const Shape expected{queries.dim(0), queries.dim(1), keys.dim(1)};
  if (!scores.defined() || scores.shape() != expected)
    fail_value(class_name(), ": score(queries, keys) must give (B, Lq, Lk) = ", expected, "; got ",
               scores.defined() ? scores.shape().str() : "None");
  const ops::AttentionOutputs outputs = ops::attention_of_scores(scores, values, options(restriction));
  record.keep(AttentionRecord::of(outputs.weights.data(), {true, false}));
  return outputs.output;
}

Tensor DotProductAttention::score(const Tensor& queries, const Tensor& keys) {
  const double scale = 1 / std::sqrt(static_cast<double>(queries.dim(-1)));
  return ops::multiply(ops::matmul(queries, ops::swapaxes(keys, -1, -2)), ops::scalar_like(queries, scale));
}

Tensor DotProductAttention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                   const Restriction& restriction) {
  check_inputs(queries, keys, values);
  if (queries.dim(2) != keys.dim(2))
    fail_value("DotProductAttention: keys must be (B, Lk, D) with D = ", queries.dim(2), " to match queries ",
               queries.shape(), "; got keys ", keys.shape());
  const DType dtype = ops::promoted({queries, keys, values});
  const Tensor q = ops::cast(queries, dtype), k = ops::cast(keys, dtype), v = ops::cast(values, dtype);
  ops::AttentionOptions o = options(restriction);
  o.operation = "DotProductAttention";
  const Tensor output = ops::packed_attention(q, k, v, {}, o).output;
  if (NoAttentionRecord::active()) {
    record.clear();
  } else {  // queries and keys are the caller's
    const Array kept_q = q.data().clone();
    const bool same = k.data().raw() == q.data().raw() && k.shape() == q.shape();
    record.keep(AttentionRecord::of(kept_q, same ? kept_q : k.data().clone(), {}, o, {true, false}));
  }
  return output;
}

Tensor without_heads(const Tensor& mask) {
  if (!mask.defined() || mask.rank() != 4 || mask.dim(1) != 1) return mask;
  return ops::reshape(mask, {mask.dim(0), mask.dim(2), mask.dim(3)});
}

Batched batched(const char* layer, const char* name, const Tensor& x) {
  if (x.rank() == 3) return {x, false};
  if (x.rank() != 2) fail_value(layer, ": ", name, " must be (B, L, M) or (L, M); got ", name, " ", x.shape());
  return {ops::reshape(x, {1, x.dim(0), x.dim(1)}), true};
}

Tensor unbatched(const Tensor& y, bool added) { return added ? ops::reshape(y, {y.dim(1), y.dim(2)}) : y; }

}  // namespace qkv::nn
