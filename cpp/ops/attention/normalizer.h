// The normalisers of attention, by recorded operations.
#pragma once

#include "ops/attention/attention.h"

namespace qkv::ops {

// Sinks and lse are of a sum that softmax alone has.
void check_normalizer(const AttentionOptions& options);

// Weights of scores (..., Lk) where `allowed`, of the same shape, else 0.
Tensor normalized(Normalizer normalizer, const Tensor& scores, const Tensor& allowed);

}  // namespace qkv::ops
