// Products of small matrices and of few rows, which would not pay for packing.
#pragma once

#include "kernels/matmul/packed_product.h"

namespace qkv::kernels {

// Every number is summed in the order of the packed product.
template <class T> struct SmallProduct {
  // c (m, n), rows ldc apart, = or, if `adds`, += a (m, k) @ b, the operand (n, k), and then + bias (n) if there is
  // one. b is read where it is: lines of it as they are, columns turned in registers, a few rows of a at a time.
  void (*multiply)(T* c, Index ldc, const Operand<T>& a, const Operand<T>& b, bool adds, const T* bias, Index m,
                   Index n, Index k);
};

}  // namespace qkv::kernels
