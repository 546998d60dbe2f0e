// Nadaraya-Watson pooling, one query at a time. Keys and values lie with one feature a row, kt (features, ld) and
// vt (features, ld), so that a vector holds neighbouring keys for any number of features. Distances are in
// double throughout: a far query differs from its keys in the last digits only.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

// Of u = distance / bandwidth >= 0.
enum class Kernel {
  gaussian,      // exp(-u^2 / 2)
  boxcar,        // 1 where u < 1
  constant,      // 1; 0 at an infinite distance
  epanechnikov,  // max(1 - u^2, 0)
  triangular,    // max(1 - u, 0)
};

template <class T> struct KernelPooling {
  // squares (n): squared distances of q (features) to the first n keys. Returns the smallest; 0 if there is none.
  double (*distances)(double* squares, const T* q, const T* kt, Index ld, Index features, Index n);
  // w (n): the kernel's values. Returns 1 / sum, 0 where the sum is 0; the weights are w times that. The gaussian's
  // values are relative to the nearest key, which makes them a softmax, and 0 below 2^-100 (double: 2^-960).
  double (*weights)(T* w, const double* squares, double nearest, Kernel kernel, double bandwidth, Index n);
  // out (features) = reciprocal * sum of w[j] * vt[., j].
  void (*pool)(T* out, const T* w, double reciprocal, const T* vt, Index ld, Index features, Index n);

  // dw[j] += dout . vt[., j]; dvt[., j] += reciprocal * w[j] * dout.
  void (*pool_backward)(T* dw, T* dvt, const T* dout, const T* w, double reciprocal, const T* vt, Index ld,
                        Index features, Index n);
  // coefficient[j]: the query moves with coefficient[j] * (q - k_j), the key against it; 0 at distance 0. dw: of the
  // weights. Returns the derivative with respect to the bandwidth.
  double (*weights_backward)(double* coefficient, const T* dw, const T* w, double reciprocal, const double* squares,
                             double nearest, Kernel kernel, double bandwidth, Index n);
  // dq += sum of coefficient[j] (q - k_j), dkt[., j] -= coefficient[j] (q - k_j).
  void (*distances_backward)(T* dq, T* dkt, const double* coefficient, const T* q, const T* kt, Index ld,
                             Index features, Index n);

  // y[i] = kernel(|u[i]|), and du[i] += dy[i] * its derivative.
  void (*values)(T* y, const T* u, Kernel kernel, Index n);
  void (*values_backward)(T* du, const T* dy, const T* u, Kernel kernel, Index n);
};

}  // namespace qkv::kernels
