#include "kernels/kernel_pooling.h"

#include <math.h>

#include "kernels/simd/doubles.h"
#include "kernels/simd/family.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Keys per step, so that what a step writes for the next is read from the first cache.
constexpr Index kBlock = 512;

double smaller(double a, double b) { return b < a ? b : a; }

double smallest(const double* x, Index n) {
  Vec<double> low[4];
  for (Vec<double>& v : low) v = splat(x[0]);
  Index i = 0;
  for (; i + 4 * kWide <= n; i += 4 * kWide)
    for (Index k = 0; k < 4; ++k) low[k] = minimum(load(x + i + k * kWide), low[k]);
  double result = -horizontal_max<double>(-minimum(minimum(low[0], low[1]), minimum(low[2], low[3])));
  for (; i < n; ++i) result = smaller(result, x[i]);
  return result;
}

template <class T> double distances(double* squares, const T* q, const T* kt, Index ld, Index features, Index n) {
  double nearest = static_cast<double>(INFINITY);
  for (Index begin = 0; begin < n; begin += kBlock) {
    const Index count = n - begin < kBlock ? n - begin : kBlock;
    double* s = squares + begin;
    const T* k = kt + begin;
    for (Index j = 0; features == 0 && j < count; ++j) s[j] = 0;
    for (Index f = 0; f < features; ++f, k += ld) {
      const double at = static_cast<double>(q[f]);
      const auto squared = [=](T key, double sum) {
        const double d = at - static_cast<double>(key);
        return fused(d, d, sum);
      };
      if (f == 0)
        for (Index j = 0; j < count; ++j) s[j] = squared(k[j], 0.0);
      else
        for (Index j = 0; j < count; ++j) s[j] = squared(k[j], s[j]);
    }
    nearest = smaller(nearest, smallest(s, count));
  }
  return n == 0 ? 0 : nearest;
}

// w[j] = scale(value(squares[j])); returns the sum.
template <class T, class Value, class Scale>
double fill(T* w, const double* squares, Index n, Value value, Scale scale) {
  double total = 0;
  for (Index begin = 0; begin < n; begin += kBlock, w += kBlock, squares += kBlock) {
    const Index count = n - begin < kBlock ? n - begin : kBlock;
    for (Index j = 0; j < count; ++j) w[j] = static_cast<T>(value(squares[j]));
    total += static_cast<double>(sum_vectors<T>(count, [=](Index j, auto at) {
      const Vec<T> v = scale(at(w + j));
      at.put(w + j, v);
      return v;
    }));
  }
  return total;
}

// 1 / bandwidth, at most so much that its third power is finite: then 0 * it is 0, and any other distance is infinitely
// far.
inline double inverse_of(double bandwidth) {
  constexpr double most = 1e100;
  return bandwidth * most > 1 ? 1 / bandwidth : most;
}

// The largest square whose root divided by the bandwidth is below 1: comparing with it saves both operations per key.
double last_inside(double bandwidth) {
  const auto inside = [=](double square) { return __builtin_sqrt(square) / bandwidth < 1; };
  double edge = bandwidth * bandwidth;
  while (inside(edge)) edge = nextafter(edge, static_cast<double>(INFINITY));
  while (!inside(edge)) edge = nextafter(edge, 0.0);
  return edge;
}

template <class T>
double weights(T* w, const double* squares, double nearest, Kernel kernel, double bandwidth, Index n) {
  const double inverse = inverse_of(bandwidth);
  const auto total_of = [=](auto value) { return fill(w, squares, n, value, [](Vec<T> v) { return v; }); };
  double total = 0;
  switch (kernel) {
    case Kernel::gaussian: {
      const double factor = inverse * inverse * -0.5;
      total = fill(
          w, squares, n, [=](double s) { return (s - nearest) * factor; }, [](Vec<T> v) { return weight_of<T>(v); });
      break;
    }
    case Kernel::boxcar: {
      const double last = last_inside(bandwidth);
      total = total_of([=](double s) { return s <= last ? 1.0 : 0.0; });
      break;
    }
    case Kernel::constant:
      total = total_of([](double s) { return s < static_cast<double>(INFINITY) ? 1.0 : 0.0; });
      break;
    case Kernel::epanechnikov:
      total = total_of([=](double s) {
        const double y = fused(-s * inverse, inverse, 1.0);
        return y < 0 ? 0 : y;
      });
      break;
    case Kernel::triangular:
      total = total_of([=](double s) {
        const double y = fused(-__builtin_sqrt(s), inverse, 1.0);
        return y < 0 ? 0 : y;
      });
      break;
  }
  return total == 0 ? 0 : 1 / total;
}

// The sum of f(j, at) over n numbers, in blocks that are added in double.
template <class T, class F> double sum_blocks(Index n, F f) {
  constexpr Index kSum = 1024 * kLineNumbers<T>;
  double total = 0;
  for (Index begin = 0; begin < n; begin += kSum)
    total += static_cast<double>(
        sum_vectors<T>(n - begin < kSum ? n - begin : kSum, [=](Index j, auto at) { return f(begin + j, at); }));
  return total;
}

template <class T> void pool(T* out, const T* w, double reciprocal, const T* vt, Index ld, Index features, Index n) {
  for (Index c = 0; c < features; ++c, vt += ld) {
    const double sum = sum_blocks<T>(n, [=](Index j, auto at) { return Product<T>{at(w + j), at(vt + j)}; });
    out[c] = static_cast<T>(sum * reciprocal);
    if (sum - sum == 0) continue;
    const Vec<T> share = splat<T>(static_cast<T>(reciprocal));  // an average is finite where the sum is not
    out[c] =
        static_cast<T>(sum_blocks<T>(n, [=](Index j, auto at) { return Product<T>{at(w + j) * share, at(vt + j)}; }));
  }
}

template <class T>
void pool_backward(T* dw, T* dvt, const T* dout, const T* w, double reciprocal, const T* vt, Index ld, Index features,
                   Index n) {
  for (Index c = 0; c < features; ++c, vt += ld, dvt += ld) {
    const T gradient = dout[c], share = static_cast<T>(static_cast<double>(gradient) * reciprocal);
    for (Index j = 0; j < n; ++j) dw[j] = fused(gradient, vt[j], dw[j]);
    for (Index j = 0; j < n; ++j) dvt[j] = fused(share, w[j], dvt[j]);
  }
}

template <class T>
double weights_backward(double* coefficient, const T* dw, const T* w, double reciprocal, const double* squares,
                        double nearest, Kernel kernel, double bandwidth, Index n) {
  const Vec<double> zero = {};
  // A weight of 0 has no derivative: the gaussian's because it is negligible, the others' because it lies outside.
  const auto where_weighted = [=](Vec<double> weight, Vec<double> v) { return select(weight == zero, zero, v); };
  const Vec<double> mean = splat(reciprocal * sum_wide(n, [=](Index j, Index count) {
                                   const Vec<double> weight = wide(w + j, count);
                                   return where_weighted(weight, weight * wide(dw + j, count));
                                 }));
  // coefficient = dk * rate, and dk * distance is what goes to the bandwidth; `rate_and_distance` gives the two.
  const auto pass = [=](auto dk_of, auto rate_and_distance) {
    return sum_wide(n, [=](Index j, Index count) {
      const Vec<double> weight = wide(w + j, count);
      const Vec<double> dk = where_weighted(weight, dk_of(weight, wide(dw + j, count) - mean));
      const Two<double> to = rate_and_distance(j, count);
      put(coefficient + j, dk * to.first, count);
      return where_weighted(weight, dk * to.second);
    });
  };
  const double inverse = inverse_of(bandwidth), inverse2 = inverse * inverse;
  const Vec<double> scale = splat(reciprocal), low = splat(nearest);
  const auto scaled = [=](Vec<double>, Vec<double> centred) { return scale * centred; };
  switch (kernel) {
    case Kernel::boxcar:
    case Kernel::constant:
      for (Index j = 0; j < n; ++j) coefficient[j] = 0;
      return 0;
    case Kernel::gaussian: {  // distances from the nearest, since the sum of dk is 0
      const auto softmax = [=](Vec<double> weight, Vec<double> centred) { return weight * scale * centred; };
      return inverse2 * inverse * pass(softmax, [=](Index j, Index count) {
               return Two<double>{splat(-inverse2), wide(squares + j, count) - low};
             });
    }
    case Kernel::epanechnikov:
      return 2 * inverse2 * inverse * pass(scaled, [=](Index j, Index count) {
               return Two<double>{splat(-2 * inverse2), wide(squares + j, count)};
             });
    case Kernel::triangular:
      for (Index j = 0; j < n; ++j) coefficient[j] = __builtin_sqrt(squares[j]);
      return inverse2 * pass(scaled, [=](Index j, Index count) {
               const Vec<double> distance = wide(coefficient + j, count);
               return Two<double>{select(distance > zero, splat(-inverse) / distance, zero), distance};
             });
  }
  return 0;
}

template <class T>
void distances_backward(T* dq, T* dkt, const double* coefficient, const T* q, const T* kt, Index ld, Index features,
                        Index n) {
  for (Index f = 0; f < features; ++f, kt += ld, dkt += ld) {
    const Vec<double> at = splat(static_cast<double>(q[f]));
    dq[f] += static_cast<T>(sum_wide(n, [=](Index j, Index count) {
      const Vec<double> step = wide(coefficient + j, count) * (at - wide(kt + j, count));
      put(dkt + j, wide(dkt + j, count) - step, count);
      return step;
    }));
  }
}

template <class T> T size_of(T x) { return x < 0 ? -x : x; }

template <class T> void values(T* y, const T* u, Kernel kernel, Index n) {
  switch (kernel) {
    case Kernel::gaussian:
      return map_vectors(y, u, n, [](auto v) { return exp_of<T>(v * v * splat<T>(static_cast<T>(-0.5))); });
    case Kernel::boxcar:
      for (Index i = 0; i < n; ++i) y[i] = size_of(u[i]) < 1 ? T(1) : T(0);
      return;
    case Kernel::constant:
      for (Index i = 0; i < n; ++i) y[i] = 1;
      return;
    case Kernel::epanechnikov:
      for (Index i = 0; i < n; ++i) {
        const T inside = fused(-u[i], u[i], T(1));
        y[i] = inside < 0 ? T(0) : inside;
      }
      return;
    case Kernel::triangular:
      for (Index i = 0; i < n; ++i) y[i] = 1 - size_of(u[i]) < 0 ? T(0) : 1 - size_of(u[i]);
      return;
  }
}

template <class T> void values_backward(T* du, const T* dy, const T* u, Kernel kernel, Index n) {
  switch (kernel) {
    case Kernel::gaussian:
      return each_vector<T>(n, [&](Index i, auto at) {
        const Vec<T> zero = {}, gradient = at(dy + i), x = at(u + i), half = splat<T>(static_cast<T>(-0.5));
        const Vec<T> sum = fused(-gradient * x, exp_of<T>(x * x * half), at(du + i));
        at.put(du + i, select(gradient == zero, at(du + i), sum));
      });
    case Kernel::boxcar:
    case Kernel::constant:
      return;
    case Kernel::epanechnikov:
      for (Index i = 0; i < n; ++i) du[i] = size_of(u[i]) < 1 ? fused(-2 * u[i], dy[i], du[i]) : du[i];
      return;
    case Kernel::triangular:
      for (Index i = 0; i < n; ++i) du[i] -= size_of(u[i]) < 1 ? (u[i] > 0 ? dy[i] : u[i] < 0 ? -dy[i] : T(0)) : T(0);
      return;
  }
}

}  // namespace

QKV_FAMILY(KernelPooling, distances<T>, weights<T>, pool<T>, pool_backward<T>, weights_backward<T>,
           distances_backward<T>, values<T>, values_backward<T>)

}  // namespace qkv::kernels::QKV_ISA
