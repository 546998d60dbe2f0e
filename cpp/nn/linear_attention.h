// Several heads of linear attention, with projections before and after them.
#pragma once

#include "nn/basic.h"
#include "ops/attention/linear/linear_attention.h"

namespace qkv::nn {

class LinearAttention : public Module {
 public:
  LinearAttention(Index embed_dim, Index num_heads, const std::string& update_rule = "linear",
                  std::optional<Index> num_kv_heads = {}, bool bias = false);
  std::string class_name() const override { return "LinearAttention"; }
  Config config() const override;

  using Output = ops::LinearAttentionOutput;  // (B, T, embed_dim) and (B, Hkv, D, D)
  using Module::forward;
  // x (B, T, embed_dim); state (B, Hkv, D, D) or undefined for zeros.
  virtual Output forward(const Tensor& x, const Tensor& state);

  const Index embed_dim, num_heads;
  const ops::UpdateRule update_rule;
  const Index num_kv_heads;
  const bool bias;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, out_proj, decay_proj, beta_proj;
};

}  // namespace qkv::nn
