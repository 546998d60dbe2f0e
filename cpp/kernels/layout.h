// The places of numbers.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Layout {
  // y (columns, rows; row stride ldy) = the transpose of x (rows, columns; row stride ldx, which may be negative).
  void (*transpose)(T* y, Index ldy, const T* x, Index ldx, Index rows, Index columns);
};

}  // namespace qkv::kernels
