// score(q, k) = w_v . tanh(W_q q + W_k k)
#pragma once

#include "nn/attention.h"

namespace qkv::nn {

class AdditiveAttention : public Attention {
 public:
  // Where sizes are not given, parameters appear at the first call or when a state dict is loaded.
  explicit AdditiveAttention(Index num_hiddens, AttentionArguments arguments = {}, std::optional<Index> query_size = {},
                             std::optional<Index> key_size = {});
  std::string class_name() const override { return "AdditiveAttention"; }
  Config config() const override;
  Tensor score(const Tensor& queries, const Tensor& keys) override;
  void prepare(const Tensor& queries, const Tensor& keys, const Tensor& values) override;
  // The same for keys (B, Lk, num_hiddens) that W_k has been applied to: a caller that asks the same keys often
  // projects them once. `weights` gets those of the call. Not for a subclass, which has its own way to the weights.
  Tensor attend_projected(const Tensor& queries, const Tensor& keys, const Tensor& values, const MaskSpec& mask_spec,
                          Array* weights);

  // Whether all parameters exist.
  bool complete() const { return W_q && W_k && w_v; }

  const Index num_hiddens;
  std::shared_ptr<Linear> W_q, W_k, w_v;

 protected:
  ops::AttentionOutputs attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                               const ops::AttentionOptions& options, AttentionRecord::Axes axes) override;
  void adapt_state(StateDict& state, const std::string& prefix) override;
  void require_parameters() const override;

 private:
  void make_parameters(Index query_size, Index key_size);
  void check_sizes(const Tensor& queries, const Tensor& keys) const;
  // Of projected queries and keys (B, L, num_hiddens).
  ops::AttentionOutputs pooled(const Tensor& queries, const Tensor& keys, const Tensor& values,
                               const ops::AttentionOptions& options, AttentionRecord::Axes axes);
  // Of projected queries and keys, (B, Lq, Lk): those of all of the hidden layer, or of one head's part of it.
  Tensor scores(const Tensor& queries, const Tensor& keys, const Tensor& weight, std::optional<Index> head = {}) const;
  // The matrix of w_v (num_hiddens) if the scores need no more of it.
  Tensor score_weight() const;

  std::optional<Index> query_size_, key_size_;
};

}  // namespace qkv::nn
