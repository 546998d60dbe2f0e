// Attention of some queries to some of their keys, without a history: what is left to do for those that have the other
// keys elsewhere is to merge results by their statistics.
#pragma once

#include "ops/attention/attention.h"

namespace qkv::ops {

struct AttentionBlock {
  Array out;         // (B, H, Lq, Dv): the softmax over these keys alone, times their values
  Array statistics;  // (B, H, Lq, 2): largest score, 1 / sum of exp(score - largest); both 0 for a row without a key
};

// query (B, H, Lq, D), key (B, Hkv, Lk, D), value (B, Hkv, Lk, Dv) in one floating dtype.
AttentionBlock attention_block(const Array& query, const Array& key, const Array& value,
                               const AttentionOptions& options);

// What these keys contribute to the gradients, given `out` and `statistics` over all keys.
struct AttentionBlockGradients {
  Array query, key, value;  // in the order of axes that each has in memory
  Array bias;               // of a float mask; not defined without one
};
// dout (B, H, Lq, Dv), dlse (B, H, Lq) or not defined.
AttentionBlockGradients attention_block_backward(const Array& dout, const Array& dlse, const AttentionBlock& whole,
                                                 const Array& query, const Array& key, const Array& value,
                                                 const AttentionOptions& options);

}  // namespace qkv::ops
