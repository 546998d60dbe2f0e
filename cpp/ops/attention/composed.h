// Attention of recorded operations: what follows scores that are no kernel's, and gradients that are differentiated
// again. The same mathematics as the kernels', with arrays of (B, H, Lq, Lk).
#pragma once

#include "ops/attention/arguments.h"

namespace qkv::ops {

// A call of the kernels with `inputs` in place of its own (in their order). Returns the output and what was asked for
// of weights and lse.
template <class T> Tensors composed_attention(const Arguments<T>& call, const Tensors& inputs);
// The scores of a call before the exclusions, (B, H, Lq, Lk).
template <class T> Tensor composed_scores(const Arguments<T>& call, const Tensors& inputs);

}  // namespace qkv::ops
