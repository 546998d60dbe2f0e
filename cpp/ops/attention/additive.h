// Additive attention: scores w . tanh(q_i + k_j).
#pragma once

#include "ops/attention/attention.h"

namespace qkv::ops {

// queries (B, Lq, M), keys (B, Lk, M), score_weight (M), values (B, Lk, Dv), or all without B.
AttentionOutputs additive_attention(const Tensor& queries, const Tensor& keys, const Tensor& score_weight,
                                    const Tensor& values, const AttentionOptions& options);

// The scores alone (B, Lq, Lk); 0 after valid_lens, (B) or (B, Lq) or undefined.
Tensor additive_scores(const Tensor& queries, const Tensor& keys, const Tensor& score_weight,
                       const Array& valid_lens = {});

}  // namespace qkv::ops
