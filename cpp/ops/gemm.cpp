#include "ops/gemm.h"

#include "kernels/gemm.h"
#include "ops/packed_product.h"

namespace qkv::ops {
namespace {

// Products of fewer multiply-adds (some 50 us) go to OpenBLAS on the calling thread.
constexpr Index kSmall = Index{1} << 22;
// Numbers that are packed at a time: 4 MB of floats stay in the last cache while the rows pass by.
constexpr Index kPackedNumbers = Index{1} << 20;
// Steps that are packed at a time: the result is read and written once for each such part.
constexpr Index kPackedDepth = 4096;

// c = c * adds + a' @ b', with panels of b' packed: at 1024^3 119 to 124 GFLOP/s where OpenBLAS gives 98 to 105
// (Cascade Lake, one thread).
template <class T>
void packed_gemm(T* c, Index ldc, kernels::Operand<T> a, kernels::Operand<T> b, bool adds, const T* bias, Index m, Index n,
                 Index k) {
  const Index panel = kernels::kernels<T>().packed_product.panel;
  const Index depth = std::min(k, kPackedDepth);
  const Index width = std::max<Index>(1, kPackedNumbers / (depth * panel)) * panel;
  const Index most = std::min(width, (n + panel - 1) / panel * panel);
  const Scratch packed(static_cast<std::size_t>(depth * most) * sizeof(T));
  for (Index step = 0; step < k; step += depth)
    for (Index column = 0; column < n; column += width) {
      const Index steps = std::min(depth, k - step), columns = std::min(width, n - column);
      pack_panels<T>(packed.as<T>(), {b.at(column, step), b.stride, b.transposed}, columns, steps);
      kernels::Finish<T> finish;
      finish.adds = adds || step > 0;
      if (bias != nullptr && step + steps == k) finish.bias = bias + column;
      const kernels::Operand<T> from{a.at(0, step), a.stride, a.transposed};
      const PackedTask<T> task{c + column, ldc, from, packed.as<T>(), finish, m, columns, steps};
      multiply_packed<T>({&task, 1});
    }
}

}  // namespace

template <class T>
void gemm(T* c, Index ldc, const T* a, Index lda, bool transpose_a, const T* b, Index ldb, bool transpose_b, T beta,
          Index m, Index n, Index k, const T* bias) {
  if (m * n * k >= kSmall && (beta == T(0) || beta == T(1)))
    return packed_gemm<T>(c, ldc, {a, lda, transpose_a}, {b, ldb, !transpose_b}, beta == T(1), bias, m, n, k);
  kernels::gemm(c, ldc, a, lda, transpose_a, b, ldb, transpose_b, beta, m, n, k);
  if (bias == nullptr) return;
  for (Index i = 0; i < m; ++i) kernels::kernels<T>().elementwise.add_scaled(c + i * ldc, bias, T(1), n);
}

template void gemm(float*, Index, const float*, Index, bool, const float*, Index, bool, float, Index, Index, Index,
                   const float*);
template void gemm(double*, Index, const double*, Index, bool, const double*, Index, bool, double, Index, Index, Index,
                   const double*);

}  // namespace qkv::ops
