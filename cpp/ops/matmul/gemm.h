// Matrix products: the one place that chooses how a product is computed, by its sizes alone.
#pragma once

#include "core/index.h"

namespace qkv::ops {

// c (m, n; row stride ldc) = or, with adds, += a' (m, k) @ b' (k, n) as kernels::gemm, on the pool where it is worth
// it. With a bias (n), which goes with adds = false, each row of it is added to c.
template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, bool adds,
          Index m, Index n, Index k, const T* bias = nullptr);

// Which operand of a product is a gradient.
enum class GradientSide { left, right };
// gemm for pull-backs: a gradient of 0 leaves no trace, even if it is multiplied with NaN. So a row of
// NaN that is padding, and that no gradient reaches, does not make the gradient of a weight NaN.
template <class T>
void gradient_gemm(GradientSide side, T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb,
                   bool transpose_b, bool adds, Index m, Index n, Index k);

}  // namespace qkv::ops
