// Distances of an order, (sum |q - k|^order)^(1 / order), one query at a time, in double. Keys lie with one feature a
// row, kt (features, ld). Of order 0: in how many features they differ; of infinity: the largest difference.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Distances {
  // y (n): of q (features) to the first n keys. scratch (n).
  void (*forward)(double* y, double* scratch, const T* q, const T* kt, Index ld, Index features, double order, Index n);
  // dq += and dkt += what dy (n) passes on; y as forward() gives it. 0 where a difference or a distance is; equal
  // largest differences share the gradient. scratch (n).
  void (*backward)(T* dq, T* dkt, double* scratch, const T* dy, const double* y, const T* q, const T* kt, Index ld,
                   Index features, double order, Index n);
};

}  // namespace qkv::kernels
