#include "nn/additive_attention.h"

#include "core/error.h"
#include "core/parallel.h"
#include "ops/attention/additive.h"
#include "ops/ops.h"

namespace qkv::nn {

AdditiveAttention::AdditiveAttention(Index hiddens, double p, std::optional<Index> query_size,
                                     std::optional<Index> key_size, std::optional<double> masked)
    : Attention(p, masked), num_hiddens(hiddens), query_size_(query_size), key_size_(key_size) {
  const auto check = [](const char* name, Index size) {
    if (size < 1) fail_value("AdditiveAttention: ", name, " must be at least 1; got ", size);
  };
  check("num_hiddens", hiddens);
  if (query_size) check("query_size", *query_size);
  if (key_size) check("key_size", *key_size);
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
    return linear ? Value(linear->in_features) : given ? Value(*given) : Value();
  };
  return {{"num_hiddens", num_hiddens},
          {"dropout", dropout},
          {"query_size", size(W_q, query_size_)},
          {"key_size", size(W_k, key_size_)},
          {"masked_value", masked_value ? Value(*masked_value) : Value()}};
}

void AdditiveAttention::require_parameters() const {
  if (!complete())
    throw std::runtime_error(
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
  check_inputs(queries, keys, values);
  check_sizes(queries, keys);
  const Uninterrupted whole;  // a handler of signals would let another thread in
  make_parameters(queries.dim(2), keys.dim(2));
}

Tensor AdditiveAttention::score(const Tensor& queries, const Tensor& keys) {
  check_sizes(queries, keys);
  if (!complete()) make_parameters(queries.dim(-1), keys.dim(-1));
  return ops::additive_scores(W_q->forward(queries), W_k->forward(keys), ops::reshape(w_v->weight, {num_hiddens}));
}

Tensor AdditiveAttention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                 const Restriction& restriction) {
  check_inputs(queries, keys, values);
  check_sizes(queries, keys);
  if (!complete()) make_parameters(queries.dim(2), keys.dim(2));
  return attend_projected(queries, W_k->forward(keys), values, restriction);
}

Tensor AdditiveAttention::attend_projected(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                           const Restriction& restriction, Array* weights) {
  const Tensor q = W_q->forward(queries);  // (B, Lq, M)
  ops::AttentionOptions o = options(restriction);
  o.operation = "AdditiveAttention";
  const auto result =
      ops::additive_attention(q, keys, ops::reshape(w_v->weight, {num_hiddens}), as_dtype_of(values, w_v->weight), o);
  record.keep(AttentionRecord::of(result.weights.data(), {true, false}));
  if (weights != nullptr) *weights = result.weights.data();
  return result.output;
}

}  // namespace qkv::nn
