// Dropout with a given mask.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Dropout {
  // y = x * (keep ? scale : 0), so NaN stays NaN.
  void (*forward)(T* y, const T* x, const bool* keep, T scale, Index n);
  // dx += dy * (keep ? scale : 0).
  void (*backward)(T* dx, const T* dy, const bool* keep, T scale, Index n);
};

}  // namespace qkv::kernels
