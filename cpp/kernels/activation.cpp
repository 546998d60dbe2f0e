#include "kernels/activation.h"

#include <math.h>

namespace qkv::kernels::QKV_ISA {
namespace {

inline float exponential(float x) { return expf(x); }
inline double exponential(double x) { return exp(x); }
inline float tangent(float x) { return tanhf(x); }
inline double tangent(double x) { return tanh(x); }
inline float error_function(float x) { return erff(x); }
inline double error_function(double x) { return erf(x); }

constexpr double kRootHalf = 0.70710678118654752440;       // sqrt(1/2)
constexpr double kRootTwoOverPi = 0.79788456080286535588;  // sqrt(2/pi)
constexpr double kNormal = 0.39894228040143267794;         // 1/sqrt(2 pi)
constexpr double kCubic = 0.044715;

template <class T> T sigmoid(T x) {
  const T e = exponential(x < 0 ? x : -x);  // in (0, 1]: no overflow, and small results keep their digits
  return (x < 0 ? e : T(1)) / (1 + e);
}

template <class T> void forward(Activation f, T* y, const T* x, Index n) {
  switch (f) {
    case Activation::relu:
      for (Index i = 0; i < n; ++i) y[i] = x[i] <= 0 ? T(0) : x[i];
      return;
    case Activation::gelu:
      for (Index i = 0; i < n; ++i) y[i] = T(0.5) * x[i] * (1 + error_function(x[i] * T(kRootHalf)));
      return;
    case Activation::gelu_tanh:
      for (Index i = 0; i < n; ++i)
        y[i] = T(0.5) * x[i] * (1 + tangent(T(kRootTwoOverPi) * (x[i] + T(kCubic) * x[i] * x[i] * x[i])));
      return;
    case Activation::tanh:
      for (Index i = 0; i < n; ++i) y[i] = tangent(x[i]);
      return;
    case Activation::sigmoid:
      for (Index i = 0; i < n; ++i) y[i] = sigmoid(x[i]);
      return;
  }
}

template <class T> void backward(Activation f, T* dx, const T* dy, const T* saved, Index n) {
  switch (f) {
    case Activation::relu:
      for (Index i = 0; i < n; ++i) dx[i] += saved[i] <= 0 ? T(0) : dy[i];
      return;
    case Activation::gelu:  // Phi(x) + x phi(x)
      for (Index i = 0; i < n; ++i) {
        const T x = saved[i];
        const T density = T(kNormal) * exponential(T(-0.5) * x * x);
        dx[i] += dy[i] * (T(0.5) * (1 + error_function(x * T(kRootHalf))) + x * density);
      }
      return;
    case Activation::gelu_tanh:
      for (Index i = 0; i < n; ++i) {
        const T x = saved[i];
        const T t = tangent(T(kRootTwoOverPi) * (x + T(kCubic) * x * x * x));
        const T inner = T(kRootTwoOverPi) * (1 + 3 * T(kCubic) * x * x);
        dx[i] += dy[i] * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * inner);
      }
      return;
    case Activation::tanh:
      for (Index i = 0; i < n; ++i) dx[i] += dy[i] * (1 - saved[i] * saved[i]);
      return;
    case Activation::sigmoid:
      for (Index i = 0; i < n; ++i) dx[i] += dy[i] * saved[i] * (1 - saved[i]);
      return;
  }
}

}  // namespace

template <class T> Activations<T> activation_kernels() { return {forward<T>, backward<T>}; }

template Activations<float> activation_kernels<float>();
template Activations<double> activation_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
