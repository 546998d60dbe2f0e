// Rotation of pairs of features.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Rotary {
  // One row: (a, b) to (a cos - b sign sin, a sign sin + b cos) for `half` pairs, the rest of the n features copied.
  // Pairs are features 2i and 2i + 1 if interleaved, else i and i + half. sign = -1 rotates back. y must not overlap x.
  void (*rotate)(T* y, const T* x, const T* cos, const T* sin, T sign, bool interleaved, Index half, Index n);
};

}  // namespace qkv::kernels
