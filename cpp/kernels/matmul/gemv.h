// Products of a matrix and a vector: the matrix is read once, in its order.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Gemv {
  // y[i * step_y] = or += the sum of a[i * lda + k] * x[k]; a: (rows, depth). The order of a sum depends on the depth.
  void (*rows)(T* y, Index step_y, const T* a, Index lda, const T* x, bool adds, Index rows, Index depth);
  // y[j] = or += the sum of x[k * step_x] * b[k * ldb + j]; b: (depth, columns). The order of a sum depends on the
  // depth.
  void (*columns)(T* y, const T* x, Index step_x, const T* b, Index ldb, bool adds, Index depth, Index columns);
};

}  // namespace qkv::kernels
