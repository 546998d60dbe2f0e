// Steps of the optimizers: parameter and state in one pass.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Optimizers {
  // g = gradient + decay * w; velocity = momentum * velocity + g (first: velocity = g);
  // w -= lr * (nesterov ? g + momentum * velocity : velocity). velocity may be null if momentum is 0.
  void (*sgd)(T* w, T* velocity, const T* gradient, T lr, T momentum, T decay, bool nesterov, bool first, Index n);
  // w *= shrink; g = gradient + decay * w; m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g^2;
  // w -= step * m / (sqrt(v) * root + eps), with step = lr / (1 - beta1^t) and root = 1 / sqrt(1 - beta2^t).
  void (*adam)(T* w, T* m, T* v, const T* gradient, T step, T root, double beta1, double beta2, T eps, T decay,
               T shrink, Index n);
  // Sum of squares, added in double.
  double (*sum_squares)(const T* x, Index n);
};

}  // namespace qkv::kernels
