// Activation functions.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

enum class Activation { relu, gelu, gelu_tanh, tanh, sigmoid };

// Whether the gradient is computed from the result; otherwise it needs the input.
inline constexpr bool needs_result(Activation a) {
  return a == Activation::relu || a == Activation::tanh || a == Activation::sigmoid;
}

template <class T> struct Activations {
  // y = f(x). NaN stays NaN; relu(-0) is 0.
  void (*forward)(Activation f, T* y, const T* x, Index n);
  // dx = dy * f'; saved is y where needs_result(f), else x. The derivative of relu at 0 is 0.
  void (*backward)(Activation f, T* dx, const T* dy, const T* saved, Index n);
};

}  // namespace qkv::kernels
