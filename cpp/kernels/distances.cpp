#include "kernels/distances.h"

#include <math.h>

#include "kernels/simd/doubles.h"
#include "kernels/simd/family.h"
#include "kernels/simd/power.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr double kInfinity = static_cast<double>(INFINITY);

// Keys per step, so that what a feature writes for the next is read from the first cache.
constexpr Index kBlock = 512;

// y (n) = f(y, |q - k|) for one feature after the other.
template <class T, class F> void fold(double* y, const T* q, const T* kt, Index ld, Index features, Index n, F f) {
  for (Index j = 0; j < n; ++j) y[j] = 0;
  for (Index i = 0; i < features; ++i, kt += ld) {
    const double at = static_cast<double>(q[i]);
    for (Index j = 0; j < n; ++j) y[j] = f(y[j], __builtin_fabs(at - static_cast<double>(kt[j])));
  }
}

inline double larger(double a, double b) { return b > a || b != b ? b : a; }

// body(j, count) for n keys, a vector at a time.
template <class F> inline void each_wide(Index n, F body) {
  for (Index j = 0; j < n; j += kWide) body(j, n - j < kWide ? n - j : kWide);
}

// Powers of what the largest difference divides, which stay in range.
template <class T>
void of_powers(double* y, double* largest, const T* q, const T* kt, Index ld, Index features, double order, Index n) {
  fold(largest, q, kt, ld, features, n, larger);
  for (Index j = 0; j < n; ++j) y[j] = 0;
  const Vec<double> power = splat(order);
  for (Index i = 0; i < features; ++i, kt += ld) {
    const Vec<double> at = splat(static_cast<double>(q[i]));
    each_wide(n, [=](Index j, Index count) {
      const Vec<double> share = absolute(at - wide(kt + j, count)) / wide(largest + j, count);
      put(y + j, wide(y + j, count) + power_of<double>(share, power), count);
    });
  }
  each_wide(n, [=, inverse = splat(1 / order)](Index j, Index count) {
    const Vec<double> whole = wide(largest + j, count), length = whole * power_of<double>(wide(y + j, count), inverse);
    put(y + j, select((whole > Vec<double>{}) & (whole < splat(kInfinity)), length, whole), count);
  });
}

template <class T>
void forward(double* y, double* scratch, const T* q, const T* kt, Index ld, Index features, double order, Index n) {
  for (Index begin = 0; begin < n; begin += kBlock, y += kBlock, scratch += kBlock, kt += kBlock) {
    const Index count = n - begin < kBlock ? n - begin : kBlock;
    if (order == 0) fold(y, q, kt, ld, features, count, [](double a, double b) { return a + (b != 0 ? 1 : 0); });
    else if (order == 1) fold(y, q, kt, ld, features, count, [](double a, double b) { return a + b; });
    else if (order == kInfinity) fold(y, q, kt, ld, features, count, larger);
    else of_powers(y, scratch, q, kt, ld, features, order, count);
  }
}

template <class T>
void backward(T* dq, T* dkt, double* scratch, const T* dy, const double* y, const T* q, const T* kt, Index ld,
              Index features, double order, Index n) {
  if (order == 0) return;
  const Vec<double> zero = {}, one = splat(1.0), power = splat(order - 1);
  const bool largest = order == kInfinity;
  if (largest) {
    const T* k = kt;
    for (Index j = 0; j < n; ++j) scratch[j] = 0;
    for (Index i = 0; i < features; ++i, k += ld)
      for (Index j = 0; j < n; ++j)
        scratch[j] += __builtin_fabs(static_cast<double>(q[i]) - static_cast<double>(k[j])) == y[j] ? 1 : 0;
  }
  for (Index i = 0; i < features; ++i, kt += ld, dkt += ld) {
    const Vec<double> at = splat(static_cast<double>(q[i]));
    dq[i] += static_cast<T>(sum_wide(n, [&](Index j, Index count) {
      const Vec<double> apart = at - wide(kt + j, count), size = absolute(apart), whole = wide(y + j, count);
      const Vec<double> share = order == 1 ? one
                                : largest  ? select(size == whole, one / wide(scratch + j, count), zero)
                                           : power_of<double>(size / whole, power);
      const Vec<double> gradient = wide(dy + j, count);
      const Vec<double> moved = select((apart == zero) | (gradient == zero), zero, copy_sign(share, apart) * gradient);
      put(dkt + j, wide(dkt + j, count) - moved, count);
      return moved;
    }));
  }
}

}  // namespace

QKV_FAMILY(Distances, forward<T>, backward<T>)

}  // namespace qkv::kernels::QKV_ISA
