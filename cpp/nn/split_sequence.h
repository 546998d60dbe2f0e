// Attention to a sequence of which this process holds a part, and others the rest.
#pragma once

#include "ops/attention/attention.h"

namespace qkv::nn {

// Code that knows the other processes implements it.
class SplitSequence {
 public:
  virtual ~SplitSequence() = default;
  // Positions (rows,) in the whole sequence, float64, of this process's rows.
  virtual Array positions(Index rows, ops::Causal causal) const = 0;
  // query (B, H, Lq, D), key and value (B, Hkv, Lk, D) of this process's rows; the result for its queries (B, H, Lq,
  // D), over the keys of all processes. valid_lens and masks count whole positions.
  virtual Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                           const ops::AttentionOptions& options) const = 0;
};

}  // namespace qkv::nn
