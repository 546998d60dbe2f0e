#include "nn/additive_attention.h"

#include "core/error.h"
#include "core/parallel.h"
#include "nn/watched_attention.h"
#include "ops/attention/additive.h"
#include "ops/ops.h"

namespace qkv::nn {

AdditiveAttention::AdditiveAttention(Index hiddens, AttentionArguments a, std::optional<Index> query_size,
                                     std::optional<Index> key_size)
    : Attention(std::move(a)), num_hiddens(hiddens), query_size_(query_size), key_size_(key_size) {
  const char* op = "AdditiveAttention";
  check_positive(op, {{"num_hiddens", hiddens}, {"query_size", query_size}, {"key_size", key_size}});
  if (hiddens % heads() != 0)
    fail_value(op, ": num_hiddens must be divisible by num_heads; got num_hiddens = ", hiddens,
               ", num_heads = ", heads());
  own_module("W_q", W_q, std::shared_ptr<Linear>());
  own_module("W_k", W_k, std::shared_ptr<Linear>());
  own_module("w_v", w_v, std::shared_ptr<Linear>());
  if (query_size && key_size) make_parameters(*query_size, *key_size);
}

void AdditiveAttention::make_parameters(Index query_size, Index key_size) {
  // One that the caller has set stays.
  if (!W_q) own_module("W_q", W_q, std::make_shared<Linear>(query_size, num_hiddens, false));
  if (!W_k) own_module("W_k", W_k, std::make_shared<Linear>(key_size, num_hiddens, false));
  if (!w_v) own_module("w_v", w_v, std::make_shared<Linear>(num_hiddens, 1, false));
  for (const auto& part : {W_q, W_k, w_v}) {
    part->set_training(own_training());
    if (in_bfloat16()) part->to_bfloat16();
    else part->to(dtype());
  }
}

Config AdditiveAttention::config() const {
  const auto size = [](const std::shared_ptr<Linear>& linear, std::optional<Index> given) {
    return linear ? Value(linear->in_features) : value_of(given);
  };
  Config all = Attention::config();
  all.insert(all.begin(), {"num_hiddens", num_hiddens});
  all.push_back({"query_size", size(W_q, query_size_)});
  all.push_back({"key_size", size(W_k, key_size_)});
  return all;
}

void AdditiveAttention::require_parameters() const {
  if (!complete())
    fail_runtime(
        "AdditiveAttention: its parameters do not exist yet because their sizes are unknown; give query_size and "
        "key_size, or call it once");
}

void AdditiveAttention::adapt_state(StateDict& state, const std::string& prefix) {
  if (complete()) return;
  const auto q = state.find(prefix + "W_q.weight"), k = state.find(prefix + "W_k.weight");
  if (q == state.end() || k == state.end() || q->second.rank() != 2 || k->second.rank() != 2)
    fail_value("load_state_dict: AdditiveAttention needs the matrices ", prefix, "W_q.weight and ", prefix,
               "W_k.weight because they tell query_size and key_size; got neither or other shapes");
  make_parameters(q->second.dim(1), k->second.dim(1));
}

void AdditiveAttention::check_sizes(const Tensor& queries, const Tensor& keys) const {
  const auto check = [](const char* name, const Tensor& x, std::optional<Index> size) {
    if (size && x.dim(-1) != *size)
      fail_value("AdditiveAttention: ", name, " must be (B, L, ", *size, ") to match the layer's parameters; got ",
                 name, " ", x.shape());
  };
  check("queries", queries, W_q ? std::optional(W_q->in_features) : query_size_);
  check("keys", keys, W_k ? std::optional(W_k->in_features) : key_size_);
}

void AdditiveAttention::prepare(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  if (W_q) return;
  checked_inputs(queries, keys, values);
  check_sizes(queries, keys);
  const Uninterrupted whole;  // a handler of signals would let another thread in
  make_parameters(queries.dim(-1), keys.dim(-1));
}

Tensor AdditiveAttention::score(const Tensor& queries, const Tensor& keys) {
  if (queries.rank() != 3 || keys.rank() != 3 || keys.dim(0) != queries.dim(0))
    fail_value("AdditiveAttention: score takes queries (B, Lq, M) and keys (B, Lk, M); got queries ", queries.shape(),
               ", keys ", keys.shape());
  check_sizes(queries, keys);
  if (!complete()) make_parameters(queries.dim(-1), keys.dim(-1));
  return scores(W_q->forward(queries), W_k->forward(keys), score_weight());
}

Tensor AdditiveAttention::score_weight() const {
  return plain(*w_v) && !w_v->bias.defined() ? ops::reshape(w_v->weight, {num_hiddens}) : Tensor();
}

Tensor AdditiveAttention::scores(const Tensor& queries, const Tensor& keys, const Tensor& weight,
                                 std::optional<Index> head) const {
  const Index size = num_hiddens / heads(), first = head.value_or(0) * size;
  if (weight.defined()) {
    if (!head) return ops::additive_scores(queries, keys, weight);
    const auto part = [&](const Tensor& x) { return ops::slice(x, -1, first, first + size); };
    return ops::additive_scores(part(queries), part(keys), part(weight));
  }
  const Index B = queries.dim(0), Lq = queries.dim(1), Lk = keys.dim(1);
  Tensor hidden =
      ops::tanh(ops::add(ops::reshape(queries, {B, Lq, 1, num_hiddens}), ops::reshape(keys, {B, 1, Lk, num_hiddens})));
  if (head) {  // the other heads' parts are zeros
    Array own = Array::zeros({num_hiddens}, DType::boolean);
    std::fill_n(own.data<bool>() + first, size, true);
    hidden = ops::where(Tensor(own), hidden, Tensor(Array::zeros({1}, hidden.dtype())));
  }
  const Tensor y = w_v->forward(hidden);
  const Shape expected{B, Lq, Lk, 1};
  if (y.shape() != expected)
    fail_value("AdditiveAttention: w_v must give scores (B, Lq, Lk, 1) = ", expected, "; got ", y.shape());
  return ops::reshape(y, {B, Lq, Lk});
}

ops::AttentionOutputs AdditiveAttention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                                const ops::AttentionOptions& options, AttentionRecord::Axes axes) {
  check_sizes(queries, keys);
  if (!complete()) make_parameters(queries.dim(2), keys.dim(2));
  return pooled(W_q->forward(queries), W_k->forward(keys), values, options, axes);
}

Tensor AdditiveAttention::attend_projected(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                           const MaskSpec& mask_spec, Array* weights) {
  if (const Observed seen(*this); seen)
    return seen.call(queries, [&](const Tensor& y) { return attend_projected(y, keys, values, mask_spec, weights); });
  Call call;
  call.mask_spec = mask_spec;
  const auto result = pooled(W_q->forward(queries), keys, values, options(call), {true, false});
  *weights = result.weights.data();
  return result.output;
}

ops::AttentionOutputs AdditiveAttention::pooled(const Tensor& queries, const Tensor& keys, const Tensor& given_values,
                                                const ops::AttentionOptions& given, AttentionRecord::Axes axes) {
  ops::AttentionOptions options = given;
  options.operation = "AdditiveAttention";
  const Watched watch(*this, axes);
  const auto seen = [&](Point point, const Tensor& x) {
    return watch ? joined(watch.through(point, split(kPointNames[static_cast<std::size_t>(point)], x))) : x;
  };
  const Tensor weight = score_weight(), q = seen(Point::queries, queries), k = seen(Point::keys, keys),
               v = split("values", seen(Point::values, as_dtype_of(given_values, w_v->weight)));
  const auto all_scores = [&] {
    if (!arguments.num_heads) return scores(q, k, weight);
    Tensors parts;  // each head has its part of the hidden layer
    for (Index h = 0; h < heads(); ++h) parts.push_back(scores(q, k, weight, h));
    return ops::stack(parts, 1);
  };
  ops::AttentionOutputs outputs = watch.composed(options, all_scores, [&](const ops::AttentionOptions& o) {
    if (own_steps()) return pooled_by_steps(all_scores(), v, o);
    const bool fused = weight.defined() && !arguments.num_heads && o.changes == nullptr;
    return fused ? ops::additive_attention(q, k, weight, v, o) : ops::composed_attention(all_scores(), v, o);
  });
  record.keep(AttentionRecord::of(outputs.weights.data(), {axes.batch, true}));
  outputs.output = joined(watch.through(Point::heads, outputs.output));
  return outputs;
}

}  // namespace qkv::nn
