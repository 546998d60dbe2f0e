// Matrix products on the pool: kernels/gemm.h cut into pieces that depend on the sizes alone.
#pragma once

#include "core/index.h"

namespace qkv::ops {

// As kernels::gemm, for large products on several threads. With a bias (n) each row of it is added to c.
template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, T beta,
          Index m, Index n, Index k, const T* bias = nullptr);

// Which operand of a product is a gradient.
enum class GradientSide { left, right };
// gemm for pull-backs, with beta 0 or 1: a gradient of 0 leaves no trace, whatever it is multiplied with. So a row of
// NaN that is padding, and that no gradient reaches, does not spoil the gradient of a weight.
template <class T>
void gradient_gemm(GradientSide side, T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb,
                   bool transpose_b, T beta, Index m, Index n, Index k);

}  // namespace qkv::ops
