#include "kernels/activation.h"

#include <math.h>

#include "kernels/simd/family.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr double kRootHalf = 0.70710678118654752440;       // sqrt(1/2)
constexpr double kRootTwoOverPi = 0.79788456080286535588;  // sqrt(2/pi)
constexpr double kNormal = 0.39894228040143267794;         // 1/sqrt(2 pi)
constexpr double kCubic = 0.044715;

template <class T> inline Vec<T> all(double x) { return splat<T>(static_cast<T>(x)); }

// The distribution function of the normal distribution.
template <class T> inline Vec<T> normal_cdf(Vec<T> x) {
  return all<T>(0.5) * (all<T>(1) + erf_of<T>(x * all<T>(kRootHalf)));
}

// tanh of the polynomial that stands for the distribution function in gelu's approximate form.
template <class T> inline Vec<T> inner_tanh(Vec<T> x) {
  return tanh_of<T>(all<T>(kRootTwoOverPi) * (x + all<T>(kCubic) * x * x * x));
}

template <class T> inline Vec<T> softplus_of(Vec<T> x) {
  return maximum(x, Vec<T>{}) + log1p_of<T>(exp_of_negative<T>(-absolute(x)));
}

// x, cut at -a and a.
template <class T> inline Vec<T> cut(Vec<T> x, T a) {
  return select(x > splat<T>(a), splat<T>(a), select(x < splat<T>(-a), splat<T>(-a), x));
}

template <class T> void forward(Activation f, T* y, const T* x, T a, Index n) {
  // x times a share that vanishes at -inf, where the product would be NaN.
  const auto times_share = [=](auto share) {
    const Vec<T> lowest = -splat<T>(static_cast<T>(INFINITY)), zero = {};
    map_vectors(y, x, n, [=](Vec<T> v) { return select(v == lowest, zero, v * share(v)); });
  };
  switch (f) {
    case Activation::relu:
      return map_vectors(y, x, n, [](Vec<T> v) { return select(v <= Vec<T>{}, Vec<T>{}, v); });
    case Activation::gelu:
      return times_share([](Vec<T> v) { return normal_cdf<T>(v); });
    case Activation::gelu_tanh:
      return times_share([](Vec<T> v) { return all<T>(0.5) * (all<T>(1) + inner_tanh<T>(v)); });
    case Activation::tanh:
      return map_vectors(y, x, n, [](Vec<T> v) { return tanh_of<T>(v); });
    case Activation::sigmoid:
      return map_vectors(y, x, n, [](Vec<T> v) { return sigmoid_of<T>(v); });
    case Activation::silu:
      return times_share([](Vec<T> v) { return sigmoid_of<T>(v); });
    case Activation::leaky_relu:
      return map_vectors(y, x, n, [=](Vec<T> v) { return select(v > Vec<T>{}, v, v * splat<T>(a)); });
    case Activation::elu:
      return map_vectors(
          y, x, n, [=](Vec<T> v) { return select(v > Vec<T>{}, v, splat<T>(a) * expm1_of<T>(minimum(Vec<T>{}, v))); });
    case Activation::softplus:
      return map_vectors(y, x, n, [=](Vec<T> v) { return softplus_of<T>(v * splat<T>(a)) / splat<T>(a); });
    case Activation::huber:
      return map_vectors(y, x, n, [=](Vec<T> v) { return cut<T>(v, a) * (v - all<T>(0.5) * cut<T>(v, a)); });
  }
}

template <class T> void backward(Activation f, T* dx, const T* dy, const T* saved, T a, Index n) {
  switch (f) {
    case Activation::relu:
      return each_vector<T>(n, [&](Index i, auto at) {
        const Vec<T> zero = {};
        at.put(dx + i, select(at(saved + i) <= zero, zero, at(dy + i)));
      });
    case Activation::gelu:  // Phi(x) + x phi(x)
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        return normal_cdf<T>(x) + x * (all<T>(kNormal) * weight_of<T>(all<T>(-0.5) * x * x));
      });
    case Activation::gelu_tanh:
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        const Vec<T> t = inner_tanh<T>(x), one = all<T>(1);
        const Vec<T> inner = all<T>(kRootTwoOverPi) * (one + all<T>(3 * kCubic) * x * x);
        return all<T>(0.5) * (one + t) + all<T>(0.5) * x * (one - t * t) * inner;
      });
    case Activation::tanh:
      return put_gradients(dx, dy, saved, n, [](Vec<T> y) { return all<T>(1) - y * y; });
    case Activation::sigmoid:
      return put_gradients(dx, dy, saved, n, [](Vec<T> y) { return y * (all<T>(1) - y); });
    case Activation::silu:
      return put_gradients(dx, dy, saved, n, [](Vec<T> x) {
        const Vec<T> s = sigmoid_of<T>(x);
        return s + x * (s * sigmoid_of<T>(-x));
      });
    case Activation::leaky_relu:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return select(x > Vec<T>{}, all<T>(1), splat<T>(a)); });
    case Activation::elu:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) {
        return select(x > Vec<T>{}, all<T>(1), splat<T>(a) * exp_of<T>(minimum(Vec<T>{}, x)));
      });
    case Activation::softplus:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return sigmoid_of<T>(x * splat<T>(a)); });
    case Activation::huber:
      return put_gradients(dx, dy, saved, n, [=](Vec<T> x) { return cut<T>(x, a); });
  }
}

}  // namespace

QKV_FAMILY(Activations, forward<T>, backward<T>)

}  // namespace qkv::kernels::QKV_ISA
