#include "kernels/dropout.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> void forward(T* y, const T* x, const bool* keep, T scale, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = x[i] * (keep[i] ? scale : T(0));
}

template <class T> void backward(T* dx, const T* dy, const bool* keep, T scale, Index n) {
  for (Index i = 0; i < n; ++i) dx[i] += dy[i] * (keep[i] ? scale : T(0));
}

}  // namespace

template <class T> Dropout<T> dropout_kernels() { return {forward<T>, backward<T>}; }

template Dropout<float> dropout_kernels<float>();
template Dropout<double> dropout_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
