// Activation functions.
#include <cmath>
#include <numbers>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {

using kernels::Activation;

namespace {

// gelu'(x), whose own derivative is (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi).
Tensor gelu_derivative(const Tensor& given) {
  const Tensor x = packed(given);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    const Array ones = Array::full(x.shape(), x.dtype(), 1);
    kernels::kernels<T>().activation.backward(Activation::gelu, y.data<T>(), ones.data<T>(), x.ptr<T>(), T(0),
                                              x.numel());
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const auto derivative = [](const Tensor& at) {
    const Tensor square = multiply(at, at);
    const Tensor density =
        scaled(unary(Unary::exponential, scaled(square, -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return multiply(subtract(scalar_like(at, 2), square), density);
  };
  return record(std::move(y), {x}, [derivative, x = Saved(x)](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, times(dy, derivative(x.tensor())));
  });
}

// f'(x) of recorded operations; x is f(x) for those that need it.
Tensor derivative(Activation f, double a, const Tensor& x) {
  const Tensor one = scalar_like(x, 1);
  switch (f) {
    case Activation::relu:
      return indicator(compare(Compare::greater, x, scalar_like(x, 0)), x.dtype());
    case Activation::gelu:
      return gelu_derivative(x);
    case Activation::gelu_tanh: {  // of x sigmoid(2 c (x + d x^3))
      const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, d = 0.044715;
      const Tensor square = multiply(x, x);
      const Tensor s = sigmoid(multiply(scaled(x, 2 * c), add(one, scaled(square, d))));
      const Tensor inner = scaled(add(one, scaled(square, 3 * d)), 2 * c);
      return add(s, multiply(multiply(x, inner), multiply(s, subtract(one, s))));
    }
    case Activation::tanh:
      return subtract(one, multiply(x, x));
    case Activation::sigmoid:
      return multiply(x, subtract(one, x));
    case Activation::silu: {
      const Tensor s = sigmoid(x);
      return multiply(s, add(one, multiply(x, subtract(one, s))));
    }
    case Activation::leaky_relu:
      return where(compare(Compare::greater, x, scalar_like(x, 0)), one, scalar_like(x, a));
    case Activation::elu: {
      const Tensor zero = scalar_like(x, 0), above = compare(Compare::greater, x, zero);
      return where(above, one, scaled(unary(Unary::exponential, where(above, zero, x)), a));
    }
    case Activation::softplus:
      return sigmoid(scaled(x, a));
    case Activation::huber:
      return clip(x, -a, a);
  }
  return {};
}

Index grain_of(Activation f) { return grain_for(f == Activation::relu ? 1 : 8); }

// dy f'(x); `kept` is f(x) for those that need it, else x.
Tensor activation_backward(Activation f, double a, const Tensor& given, const Tensor& kept) {
  const Tensor dy = packed(given);
  Array result(dy.shape(), dy.dtype());
  visit_floating(dy.dtype(), [&]<class T>(T) {
    parallel_for(0, dy.numel(), grain_of(f), [&](Index begin, Index end) {
      kernels::kernels<T>().activation.backward(f, result.data<T>() + begin, dy.ptr<T>() + begin, kept.ptr<T>() + begin,
                                                static_cast<T>(a), end - begin);
    });
  });
  if (!wants_gradient({dy, kept})) return Tensor(std::move(result));
  return record_composed(std::move(result), {dy, kept},
                         [f, a](const Tensors& in) { return times(in[0], derivative(f, a, in[1])); });
}

}  // namespace

Tensor activated(const Tensor& input, Activation f, double a) {
  const Tensor x = floating(input);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, x.numel(), grain_of(f), [&](Index begin, Index end) {
      kernels::kernels<T>().activation.forward(f, y.data<T>() + begin, x.ptr<T>() + begin, static_cast<T>(a),
                                               end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const Saved saved = kernels::needs_result(f) ? Saved(y) : Saved(x);
  return record(std::move(y), {x}, [f, a, saved](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, activation_backward(f, a, dy, kernels::needs_result(f) ? dx.output(saved) : saved.tensor()));
  });
}

Tensor relu(const Tensor& x) { return activated(x, Activation::relu); }
Tensor gelu(const Tensor& x, bool approximate) {
  return activated(x, approximate ? Activation::gelu_tanh : Activation::gelu);
}
Tensor tanh(const Tensor& x) { return activated(x, Activation::tanh); }
Tensor sigmoid(const Tensor& x) { return activated(x, Activation::sigmoid); }
Tensor silu(const Tensor& x) { return activated(x, Activation::silu); }
Tensor leaky_relu(const Tensor& x, double slope) { return activated(x, Activation::leaky_relu, slope); }
Tensor elu(const Tensor& x, double alpha) { return activated(x, Activation::elu, alpha); }
Tensor softplus(const Tensor& x, double beta) {
  if (!(beta > 0) || std::isinf(beta)) fail_value("softplus: beta must be a positive number; got ", beta);
  return activated(x, Activation::softplus, beta);
}
Tensor huber(const Tensor& difference, double delta) {
  if (!(delta > 0)) fail_value("huber: delta must be a positive number; got ", delta);
  return activated(difference, Activation::huber, delta);
}

}  // namespace qkv::ops
