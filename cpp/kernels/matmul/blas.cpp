// The only includer of cblas.h.
#include "kernels/matmul/blas.h"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/locks.h"

#ifdef QKV_BLAS_PREFIX
#define QKV_BLAS(name) scipy_##name
#else
#define QKV_BLAS(name) name
#endif

namespace qkv::kernels {
namespace {

void call(float* c, int ldc, const float* a, int lda, CBLAS_TRANSPOSE ta, const float* b, int ldb, CBLAS_TRANSPOSE tb,
          bool adds, int m, int n, int k) {
  QKV_BLAS(cblas_sgemm)(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, adds ? 1.0f : 0.0f, c, ldc);
}

void call(double* c, int ldc, const double* a, int lda, CBLAS_TRANSPOSE ta, const double* b, int ldb,
          CBLAS_TRANSPOSE tb, bool adds, int m, int n, int k) {
  QKV_BLAS(cblas_dgemm)(CblasRowMajor, ta, tb, m, n, k, 1.0, a, lda, b, ldb, adds ? 1.0 : 0.0, c, ldc);
}

// BLAS counts with int. What exceeds it is strides of enormous matrices, where a small part is multiplied, so plain
// loops do.
template <class T>
void plain(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, bool adds,
           Index m, Index n, Index k) {
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      T sum = 0;
      for (Index l = 0; l < k; ++l)
        sum += a[transpose_a ? l * lda + i : i * lda + l] * b[transpose_b ? j * ldb + l : l * ldb + j];
      T& y = c[i * ldc + j];
      y = adds ? y + sum : sum;
    }
}

}  // namespace

template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, bool adds,
          Index m, Index n, Index k) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (Index i = 0; i < m && !adds; ++i) std::fill_n(c + i * ldc, n, T(0));
    return;
  }
  if (std::max({m, n, k, lda, ldb, ldc}) > std::numeric_limits<int>::max()) [[unlikely]]
    return plain(c, ldc, a, lda, transpose_a, b, ldb, transpose_b, adds, m, n, k);
  const NoFork whole;  // OpenBLAS locks its buffers
  const auto leading = [](Index stride) { return static_cast<int>(std::max<Index>(stride, 1)); };
  call(c, leading(ldc), a, leading(lda), transpose_a ? CblasTrans : CblasNoTrans, b, leading(ldb),
       transpose_b ? CblasTrans : CblasNoTrans, adds, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
}

template void gemm(float*, Index, const float*, Index, bool, const float*, Index, bool, bool, Index, Index, Index);
template void gemm(double*, Index, const double*, Index, bool, const double*, Index, bool, bool, Index, Index, Index);

std::string blas_config() { return QKV_BLAS(openblas_get_config)(); }
std::string blas_core() { return QKV_BLAS(openblas_get_corename)(); }
void initialise_blas() {
  QKV_BLAS(openblas_set_num_threads)(1);
  constexpr Index n = 128;  // small products need no memory
  const std::vector<float> x(n * n);
  std::vector<float> y(n * n);
  gemm<float>(y.data(), n, x.data(), n, false, x.data(), n, false, false, n, n, n);
}

}  // namespace qkv::kernels
