// Matrix products on the pool: kernels/gemm.h cut into pieces that depend on the sizes alone.
#pragma once

#include "core/index.h"

namespace qkv::ops {

// As kernels::gemm, for large products on several threads. With a bias (n) each row of it is added to c.
template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, T beta,
          Index m, Index n, Index k, const T* bias = nullptr);

}  // namespace qkv::ops
