// One head: softmax(scale * (x Wq)(c Wk)^T) (c Wv), without an output projection; c is x or a context.
#pragma once

#include "nn/multi_head_attention.h"

namespace qkv::nn {

class SelfAttention : public MultiHeadAttention {
 public:
  SelfAttention(Index in_features, Index out_features, bool bias = false, std::optional<double> scale = {},
                double dropout = 0, ops::Causal causal = ops::Causal::none, std::optional<double> masked_value = {});
  std::string class_name() const override { return "SelfAttention"; }
  Config config() const override;
};

}  // namespace qkv::nn
