// Means and squared distances from them, in double: those of float32 numbers of any size stay in its range.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

// The mean of some numbers and the sum of squares of their distances from it; where `centred` is false, from 0.
struct Spread {
  double mean, squares;
};

template <class T> struct Moments {
  // Of each row of x (rows, n).
  void (*of_rows)(Spread* spread, const T* x, bool centred, Index rows, Index n);
  // Of each column of x (rows, n), whose rows lie `step` apart.
  void (*of_columns)(Spread* spread, const T* x, bool centred, Index step, Index rows, Index n);
};

}  // namespace qkv::kernels
