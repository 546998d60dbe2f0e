// Kernel pooling of recorded operations, for gradients that are differentiated again.
#pragma once

#include "ops/kernel_pooling.h"

namespace qkv::ops {

// queries (B, Lq, D), keys (B, Lk, D) to distances (B, Lq, Lk), with gradient 0 at distance 0; 1 where not allowed.
Tensor composed_distances(const Tensor& queries, const Tensor& keys, const Tensor& allowed, double order);
// Kernel values divided by their sum over the allowed keys; zeros where that is 0.
Tensor composed_weights(const Tensor& kernel_values, const Tensor& allowed);
Tensor composed_values(Kernel kernel, const Tensor& u);
// The output (B, Lq, Dv) and the weights (B, Lq, Lk) of values (B, Lk, Dv).
Tensors composed_pooling(Kernel kernel, const Tensor& queries, const Tensor& keys, const Tensor& values,
                         const Tensor& bandwidth, const Tensor& allowed);

}  // namespace qkv::ops
