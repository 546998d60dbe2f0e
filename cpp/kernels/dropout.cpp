#include "kernels/dropout.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// A number for the boolean instead of a choice, because GCC 12 vectorises only that: 4 times the pace.
template <class T> void forward(T* y, const T* x, const bool* keep, T scale, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = x[i] * (scale * static_cast<T>(static_cast<int>(keep[i])));
}

}  // namespace

template <class T> Dropout<T> dropout_kernels() { return {forward<T>}; }

template Dropout<float> dropout_kernels<float>();
template Dropout<double> dropout_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
