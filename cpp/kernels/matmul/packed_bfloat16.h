// Products of float32 rows with a matrix that is packed as bfloat16: half the bytes to read. Sums are float32.
//
// Panels are those of kernels/matmul/packed_product.h, but a 32-bit word holds the numbers of two steps, the earlier
// one in its lower half. An odd depth ends with a zero.
#pragma once

#include <stdint.h>

#include "kernels/matmul/packed_product.h"

namespace qkv::kernels {

struct PackedBfloat16 {
  bool native;  // with the CPU's own products, which round x to bfloat16 too; else the packed numbers are widened
  // Numbers that multiply needs room for.
  Index (*scratch)(Index depth);
  // packed (columns / panel, rounded up, depth / 2, rounded up, panel) = operand (columns, depth), rounded to even.
  void (*pack)(uint32_t* packed, const Operand<float>& operand, Index columns, Index depth);
  // As PackedProduct::multiply, but x is not transposed and finish.adds is not asked for.
  void (*multiply)(float* y, Index ldy, const Operand<float>& x, const uint32_t* packed,
                   const Epilogue<float>& epilogue, float* scratch, Index rows, Index columns, Index depth, Index first,
                   Index last);
  // y = x rounded to the nearest bfloat16, ties to even; NaN stays NaN.
  void (*round)(float* y, const float* x, Index n);
};

}  // namespace qkv::kernels
