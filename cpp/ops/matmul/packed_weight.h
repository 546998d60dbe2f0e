// Weights as products without gradients read them.
#pragma once

#include "autograd/packed_matrix.h"

namespace qkv::ops {

// Whether it may be packed: others that may change it unseen have no part in its memory.
bool can_pack(const Array& weight);
// A weight (out, in) in panels, as kernels/matmul/packed_product.h or, if wanted and the weight is float32,
// kernels/matmul/packed_bfloat16.h describes it. It has its numbers in these alone afterwards, where it can.
PackedMatrixPtr packed_weight(const Tensor& weight, bool bfloat16);
// Rounds a float32 Tensor to bfloat16, while no other thread computes. A matrix has half of its bytes afterwards, until
// its numbers are asked for.
void round_to_bfloat16(const Tensor& t);

}  // namespace qkv::ops
