// One head: softmax(scale * (x Wq)(c Wk)^T) (c Wv), without an output projection; c is x or a context.
#pragma once

#include "nn/attention.h"

namespace qkv::nn {

class SelfAttention : public Module {
 public:
  SelfAttention(Index in_features, Index out_features, bool bias = false, std::optional<double> scale = {},
                double dropout = 0, ops::Causal causal = ops::Causal::none, std::optional<double> masked_value = {});
  std::string class_name() const override { return "SelfAttention"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override { return forward(x, Tensor(), {}); }
  // `weights` gets those of the call, with their history.
  Tensor forward(const Tensor& x, const Tensor& context, const Restriction& restriction, Tensor* weights = nullptr);

  const Index in_features, out_features;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj;
  AttentionRecord record;

 private:
  const std::optional<double> scale_;
  const double dropout_;
  const ops::Causal causal_;
  const std::optional<double> masked_value_;
};

// "upper_left" and True are one; "lower_right" the other; False is none.
Value causal_value(ops::Causal causal);

}  // namespace qkv::nn
