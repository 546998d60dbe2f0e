// Normalisation over rows.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Norm {
  // y = (x - mean) / sqrt(variance + eps) * weight + bias for each row; y, x: (rows, n); weight, bias: (n) or null.
  // statistics: (rows, 3) = first estimate of the mean, its correction, 1 / sqrt(variance + eps). The correction keeps
  // the digits that the mean of numbers far from 0 has no room for.
  void (*layer_forward)(T* y, T* statistics, const T* x, const T* weight, const T* bias, T eps, Index rows, Index n);
  // The same of x + residual, in one pass over memory. The sum is written to `sum` (rows, n), which may be y.
  void (*add_layer_forward)(T* y, T* sum, T* statistics, const T* x, const T* residual, const T* weight, const T* bias,
                            T eps, Index rows, Index n);
  // Writes dx (rows, n) and adds to dweight (n) and dbias (n); each may be null.
  void (*layer_backward)(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight,
                         Index rows, Index n);

  // y = x / sqrt(mean(x^2) + eps) * weight; statistics: (rows) = 1 / sqrt(mean(x^2) + eps).
  void (*rms_forward)(T* y, T* statistics, const T* x, const T* weight, T eps, Index rows, Index n);
  void (*rms_backward)(T* dx, T* dweight, T* no_bias, const T* dy, const T* x, const T* statistics, const T* weight,
                       Index rows, Index n);
};

}  // namespace qkv::kernels
