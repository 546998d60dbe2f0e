// Dropout with a given mask.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Dropout {
  // y = x * (keep ? scale : 0), so NaN stays NaN. The gradient is the same function of dy.
  void (*forward)(T* y, const T* x, const bool* keep, T scale, Index n);
};

}  // namespace qkv::kernels
