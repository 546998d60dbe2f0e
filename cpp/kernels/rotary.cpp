#include "kernels/rotary.h"

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T>
void rotate(T* __restrict y, const T* __restrict x, const T* cos, const T* sin, T sign, bool interleaved, Index half,
            Index n) {
  if (interleaved) {
    for (Index i = 0; i < half; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = fused(a, cos[i], -(b * (sign * sin[i])));
      y[2 * i + 1] = fused(b, cos[i], a * (sign * sin[i]));
    }
  } else {
    for (Index i = 0; i < half; ++i) {
      y[i] = fused(x[i], cos[i], -(x[i + half] * (sign * sin[i])));
      y[i + half] = fused(x[i + half], cos[i], x[i] * (sign * sin[i]));
    }
  }
  for (Index i = 2 * half; i < n; ++i) y[i] = x[i];
}

}  // namespace

QKV_FAMILY(Rotary, rotate<T>)

}  // namespace qkv::kernels::QKV_ISA
