// Attention of recorded operations, for gradients that are differentiated again: the same mathematics as the kernels',
// with arrays of (B, H, Lq, Lk).
#pragma once

#include "autograd/tensor.h"
#include "kernels/attention/problem.h"

namespace qkv::ops {

// What AttentionProblem does not tell of a call.
struct ComposedShapes {
  bool packed;     // query (B, Lq, H * D), key and value accordingly
  Index key_rows;  // at least as many as keys
  Shape bias;      // lifted to broadcast to (B, H, Lq, Lk)
  Shape output, weights, lse;
  bool with_weights, with_lse;
};

// inputs: query, key, value, bias (a float mask or scores), sinks; the last two may be undefined. Returns the output
// and what was asked for of weights and lse.
template <class T>
Tensors composed_attention(const kernels::AttentionProblem<T>& problem, const Tensors& inputs,
                           const ComposedShapes& shapes);

}  // namespace qkv::ops
