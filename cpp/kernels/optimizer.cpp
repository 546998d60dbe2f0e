#include "kernels/optimizer.h"

#include <math.h>

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T>
void sgd(T* __restrict w, T* __restrict velocity, const T* __restrict gradient, T lr, T momentum, T decay,
         bool nesterov, bool first, Index n) {
  if (velocity == nullptr) {
    for (Index i = 0; i < n; ++i) w[i] = fused(-lr, fused(decay, w[i], gradient[i]), w[i]);
    return;
  }
  const T keep = first ? T(0) : momentum;
  for (Index i = 0; i < n; ++i) {
    const T g = fused(decay, w[i], gradient[i]);
    const T v = fused(keep, velocity[i], g);
    velocity[i] = v;
    w[i] = fused(-lr, nesterov ? fused(momentum, v, g) : v, w[i]);
  }
}

template <class T>
void adam(T* __restrict w, T* __restrict m, T* __restrict v, const T* __restrict gradient, T step, T root, double beta1,
          double beta2, T eps, T decay, T shrink, Index n) {
  const T keep1 = static_cast<T>(beta1), take1 = static_cast<T>(1 - beta1);
  const T keep2 = static_cast<T>(beta2), take2 = static_cast<T>(1 - beta2);
  for (Index i = 0; i < n; ++i) {
    const T kept = w[i] * shrink;
    const T g = fused(decay, kept, gradient[i]);
    const T first = fused(keep1, m[i], take1 * g);
    const T second = fused(keep2, v[i], take2 * g * g);
    m[i] = first;
    v[i] = second;
    w[i] = kept - step * first / fused(static_cast<T>(sqrt(second)), root, eps);
  }
}

template <class T> double sum_squares(const T* x, Index n) {
  return sum_sixteen<double>(n, [=](Index i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

}  // namespace

QKV_FAMILY(Optimizers, sgd<T>, adam<T>, sum_squares<T>)

}  // namespace qkv::kernels::QKV_ISA
