// Running sums, products and linear recurrences down columns, in double.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

// y, x (rows, n), rows `step` apart, which may be negative. `before` (n): what the rows before have made of each
// column; what these make of it takes its place.
template <class T> struct Scan {
  // y = before + the sum of the rows of x up to each.
  void (*sums)(T* y, double* before, const T* x, Index step, Index rows, Index n);
  // y = before * the product of the rows of x up to each.
  void (*products)(T* y, double* before, const T* x, Index step, Index rows, Index n);
  // y = a + b * what the row before made.
  void (*linear)(T* y, double* before, const T* a, const T* b, Index step, Index rows, Index n);
};

}  // namespace qkv::kernels
