// Softmax, its logarithm and the loss on top of it.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Softmax {
  // y = softmax(scale * x) for each of the rows; y, x: (rows, n) with rows `step` apart, y may be x. scale > 0. A row
  // of -inf becomes NaN, or zeros if empty_is_zero. Returns true if NaN came out anywhere.
  bool (*forward)(T* y, const T* x, T scale, bool empty_is_zero, Index rows, Index n, Index step);
  // dx = scale * y * (dy - sum(y * dy)). With skip_zeros an entry of weight 0 gets nothing, even if its dy is NaN.
  void (*backward)(T* dx, const T* dy, const T* y, T scale, bool skip_zeros, Index rows, Index n);

  // y = scale * x - logsumexp(scale * x); y may be x.
  void (*log_forward)(T* y, const T* x, T scale, Index rows, Index n);
  // dx = scale * (dy - exp(y) * sum(dy)).
  void (*log_backward)(T* dx, const T* dy, const T* y, T scale, Index rows, Index n);
  // The same over columns: x, y, dx, dy (rows, n) with rows `step` apart.
  void (*forward_columns)(T* y, const T* x, T scale, Index step, Index rows, Index n);
  void (*backward_columns)(T* dx, const T* dy, const T* y, T scale, Index step, Index rows, Index n);
  void (*log_forward_columns)(T* y, const T* x, T scale, Index step, Index rows, Index n);
  void (*log_backward_columns)(T* dx, const T* dy, const T* y, T scale, Index step, Index rows, Index n);

  // y[j] = value where an entry is excluded: j >= length, allowed[j * allowed_step] false or bias[j * bias_step] -inf.
  // allowed and bias may be null; steps are 0 or 1.
  void (*exclude)(T* y, const bool* allowed, Index allowed_step, const T* bias, Index bias_step, Index length, T value,
                  Index n);

  // lse[i] = logsumexp(x[i]); x: (rows, n).
  void (*logsumexp)(T* lse, const T* x, Index rows, Index n);
  // lse[j] of each column; x: (rows, n) with rows `step` apart.
  void (*logsumexp_columns)(T* lse, const T* x, Index step, Index rows, Index n);
  // dx[j] = a * exp(x[j] - lse) - b * weight[j]; weight may be null, which means ones.
  void (*loss_gradients)(T* dx, const T* x, T lse, T a, const T* weight, T b, Index n);
  // sum(weight[j] * (x[j] - lse)) in double; weight may be null, which means ones.
  double (*sum_centred)(const T* x, T lse, const T* weight, Index n);
};

}  // namespace qkv::kernels
