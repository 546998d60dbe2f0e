// Matrix products. Row-major throughout; large ones are OpenBLAS's.
#pragma once

#include <string>

#include "core/index.h"

namespace qkv::kernels {

// c (m, n; row stride ldc) = or, with adds, += a' (m, k) @ b' (k, n), where a' is a (m, k; lda) or, with transpose_a,
// the transpose of a (k, m; lda), and likewise b'. One thread. k = 0 gives zeros, or leaves c.
template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, bool adds,
          Index m, Index n, Index k);

// What the BLAS library says of itself, and the name of the core it chose for this CPU.
std::string blas_config();
std::string blas_core();
// To be called once before any product: our pool has the threads, BLAS gets one. It also gets the memory for its first
// product, because a BLAS that finds none ends the process.
void initialise_blas();

}  // namespace qkv::kernels
