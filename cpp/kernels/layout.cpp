#include "kernels/layout.h"

#include "kernels/simd/family.h"
#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// As many rows and columns as a vector has lanes, through registers.
template <class T> void transpose_block(T* y, Index ldy, const T* x, Index ldx) {
  constexpr Index L = kLanes<T>;
  const T* from[L];
  for (Index i = 0; i < L; ++i) from[i] = x + i * ldx;
  Vec<T> v[L];
  load_transposed<T>(v, from, 0);
#pragma GCC unroll 16
  for (Index i = 0; i < L; ++i) store(y + i * ldy, v[i]);
}

template <class T> void transpose_numbers(T* y, Index ldy, const T* x, Index ldx, Index rows, Index columns) {
  for (Index j = 0; j < columns; ++j)
    for (Index i = 0; i < rows; ++i) y[j * ldy + i] = x[i * ldx + j];
}

// Strips of L rows, each read to its end: the CPU's prefetchers follow these, and a matrix of 40 MB takes a third of
// the time that it takes in tiles of 64 x 64.
template <class T> void transpose_matrix(T* y, Index ldy, const T* x, Index ldx, Index rows, Index columns) {
  constexpr Index L = kLanes<T>;
  const Index whole_rows = rows / L * L, whole_columns = columns / L * L;
  for (Index i = 0; i < whole_rows; i += L)
    for (Index j = 0; j < whole_columns; j += L) transpose_block(y + j * ldy + i, ldy, x + i * ldx + j, ldx);
  transpose_numbers(y + whole_rows, ldy, x + whole_rows * ldx, ldx, rows - whole_rows, whole_columns);
  transpose_numbers(y + whole_columns * ldy, ldy, x + whole_columns, ldx, rows, columns - whole_columns);
}

}  // namespace

QKV_FAMILY(Layout, transpose_matrix<T>)

}  // namespace qkv::kernels::QKV_ISA
