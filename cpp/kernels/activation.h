// Activation functions.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

// The last four have a number that shapes them, `a`: leaky_relu is a x below 0, elu a (e^x - 1), softplus
// log(1 + e^(a x)) / a, huber x^2 / 2 within -a and a, a (|x| - a / 2) beyond. The others do not look at it.
enum class Activation { relu, gelu, gelu_tanh, tanh, sigmoid, silu, leaky_relu, elu, softplus, huber };

// Whether the gradient is computed from the result; otherwise it needs the input.
static constexpr bool needs_result(Activation a) {
  return a == Activation::relu || a == Activation::tanh || a == Activation::sigmoid;
}

template <class T> struct Activations {
  // y = f(x). NaN stays NaN; relu(-0) is 0.
  void (*forward)(Activation f, T* y, const T* x, T a, Index n);
  // dx = dy * f'; saved is y where needs_result(f), else x. The derivative of relu at 0 is 0, of leaky_relu and elu
  // that from the left.
  void (*backward)(Activation f, T* dx, const T* dy, const T* saved, T a, Index n);
};

}  // namespace qkv::kernels
