#include "kernels/norm.h"

#include <math.h>
#include <string.h>

#include "kernels/simd/family.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> bool finite(T x) { return x - x == 0; }

// Several passes over a row in memory wait for it in the first, for the lines of the result in the last, and use memory
// in none between. So a pass before the last fetches the lines of the result, and one after the first the next row;
// without it LayerNorm of a large array takes 1.3 times as long, forward and backward. Long rows would evict each
// other from the first cache.
inline Index next_row(Index n) { return n <= 2048 ? n : 0; }

// centre + shift is the mean; the spread is mean((x - mean)^2). Around the centre, which is the mean up to rounding,
// the square of the shift is far below the spread, so one pass gives both. y is where the result will be written.
template <class T> void moments(const T* y, const T* x, Index n, T& centre, T& shift, T& spread) {
  const T count = static_cast<T>(n);
  centre = sum_vectors<T>(n, [=](Index j, auto at) { return at(x + j); }) / count;
  const Vec<T> c = splat<T>(centre);
  const T* next = x + next_row(n);
  const TwoSums<T> sums = two_sums<T>(n, [=](Index j, auto at) {
    __builtin_prefetch(next + j);
    __builtin_prefetch(y + j);
    const Vec<T> d = at(x + j) - c;
    return Two<T, Product<T>>{d, {d, d}};
  });
  shift = sums.first / count;
  spread = fused(-shift, shift, sums.second / count);
  if (spread < 0) spread = 0;
}

// Whether squares of numbers of T, whose mean is this, neither left its range nor lost digits.
template <class T> bool in_range(T square) {
  constexpr T least = sizeof(T) == sizeof(float) ? T(1e-30) : T(1e-280);
  return square > least && finite(square);
}

// sqrt(a^2 + b^2) of numbers that are not negative, whose squares may overflow.
inline double length(double a, double b) {
  const double large = a > b ? a : b, ratio = (a > b ? b : a) / large;
  return large == 0 || !(ratio > 0) ? a + b : large * sqrt(fused(ratio, ratio, 1.0));
}

// The mean, or 0, and 1 / sqrt(spread + eps) in double, of numbers that a power of two has divided.
template <class T> double wide_factor(const T* x, Index n, bool centred, double eps, double& mean) {
  double largest = 0, sum = 0, squares = 0;
  for (Index j = 0; j < n; ++j)
    if (const double size = fabs(static_cast<double>(x[j])); size > largest) largest = size;
  const int power = largest > 0 && finite(largest) ? ilogb(largest) : 0;
  const auto number = [=](Index j) { return scalbn(static_cast<double>(x[j]), -power); };
  for (Index j = 0; centred && j < n; ++j) sum += number(j);
  const double middle = sum / static_cast<double>(n);
  for (Index j = 0; j < n; ++j) squares += (number(j) - middle) * (number(j) - middle);
  mean = scalbn(middle, power);
  return 1 / length(scalbn(sqrt(squares / static_cast<double>(n)), power), sqrt(eps));
}

// y = (x - centre - shift) * factor * weight + bias.
template <class T>
void normalise(T* y, const T* x, T centre, T shift, T factor, const T* weight, const T* bias, Index n) {
  const Vec<T> c = splat<T>(centre), s = splat<T>(shift), f = splat<T>(factor);
  const auto h = [=](Index j, auto at) { return (at(x + j) - c - s) * f; };
  if (weight != nullptr && bias != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, fused(h(j, at), at(weight + j), at(bias + j))); });
  } else if (weight != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) * at(weight + j)); });
  } else if (bias != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) + at(bias + j)); });
  } else {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at)); });
  }
}

template <class T> void layer_row(T* y, T* statistics, const T* x, const T* weight, const T* bias, T eps, Index n) {
  T centre, shift, spread;
  moments(y, x, n, centre, shift, spread);
  T factor = 1 / static_cast<T>(sqrt(spread + eps));
  if (!in_range(spread + eps)) {
    double mean;
    factor = static_cast<T>(wide_factor(x, n, true, static_cast<double>(eps), mean));
    centre = static_cast<T>(mean);
    shift = static_cast<T>(mean - static_cast<double>(centre));
  }
  statistics[0] = centre;
  statistics[1] = shift;
  statistics[2] = factor;
  normalise(y, x, centre, shift, factor, weight, bias, n);
}

template <class T>
void layer_forward(T* y, T* statistics, const T* x, const T* weight, const T* bias, T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i) layer_row(y + i * n, statistics + 3 * i, x + i * n, weight, bias, eps, n);
}

template <class T>
void add_layer_forward(T* y, T* sum, T* statistics, const T* x, const T* residual, const T* weight, const T* bias,
                       T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, sum += n, x += n, residual += n) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(sum + j, at(x + j) + at(residual + j)); });
    layer_row(y, statistics + 3 * i, sum, weight, bias, eps, n);
  }
}

// With h = (x - mean) * factor and g = dy * weight: dx = factor * (g - mean(g) - h * mean(g * h)). For rms_norm the
// first mean is left out and h = x * factor.
//
// R rows at a time, because dweight and dbias are then read and written once for all of them: where n is a multiple of
// 1024 all the streams fall on the same places of L1, and row by row that cost 2.4 times as much.
template <class T, bool centred, bool weighted, int R>
void rows_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight,
                   Index n) {
  constexpr Index kStatistics = centred ? 3 : 1;
  const Vec<T> zero = {};
  Vec<T> centre[R], shift[R], factor[R], mean[R] = {}, projection[R] = {};
  for (int r = 0; r < R; ++r) {
    const T* s = statistics + r * kStatistics;
    centre[r] = centred ? splat<T>(s[0]) : zero;
    shift[r] = centred ? splat<T>(s[1]) : zero;
    factor[r] = splat<T>(s[centred ? 2 : 0]);
    if (dx == nullptr) continue;
    const Vec<T> c = centre[r], d = shift[r], f = factor[r];
    const T *dyr = dy + r * n, *xr = x + r * n, *dxr = dx + r * n;
    const TwoSums<T> sums = two_sums<T>(n, [=](Index j, auto at) {
      __builtin_prefetch(dxr + j);
      const Vec<T> g = weighted ? at(dyr + j) * at(weight + j) : at(dyr + j);
      return Two<T, Product<T>>{g, {g, (centred ? at(xr + j) - c - d : at(xr + j)) * f}};
    });
    if (centred) mean[r] = splat<T>(sums.first / static_cast<T>(n));
    projection[r] = splat<T>(sums.second / static_cast<T>(n));
  }
  each_vector<T>(n, [&](Index j, auto at) {
    const Vec<T> w = weighted ? at(weight + j) : zero;
    Vec<T> sum = {}, product = {}, out[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vec<T> d = at(dy + r * n + j), v = at(x + r * n + j);
      const Vec<T> h = (centred ? v - centre[r] - shift[r] : v) * factor[r];
      sum += d;
      product = fused(d, h, product);
      const Vec<T> g = weighted ? d * w : d;
      out[r] = factor[r] * fused(-h, projection[r], centred ? g - mean[r] : g);
    }
    if (dweight != nullptr) at.put(dweight + j, at(dweight + j) + product);
    if (dbias != nullptr) at.put(dbias + j, at(dbias + j) + sum);
    if (dx == nullptr) return;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) at.put(dx + r * n + j, out[r]);
  });
}

template <class T, bool centred, bool weighted>
void backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight, Index rows,
              Index n) {
  constexpr Index kStatistics = centred ? 3 : 1;
  Index i = 0;
  const auto some = [&](auto run, Index count) {
    run(dx == nullptr ? dx : dx + i * n, dweight, dbias, dy + i * n, x + i * n, statistics + i * kStatistics, weight,
        n);
    i += count;
  };
  const auto usable = [&](Index row) {
    const T* s = statistics + row * kStatistics;
    return (!centred || finite(s[0] + s[1])) && finite(s[kStatistics - 1]) && s[kStatistics - 1] > 0;
  };
  // A row that holds NaN or infinity and that no gradient reaches adds nothing: 0 * NaN would.
  const auto passes_over = [&](Index row) {
    if (usable(row)) return false;
    for (Index j = 0; j < n; ++j)
      if (dy[row * n + j] != 0) return false;
    if (dx != nullptr) memset(dx + row * n, 0, sizeof(T) * n);
    return true;
  };
  while (i < rows) {
    if (i + 4 <= rows && usable(i) && usable(i + 1) && usable(i + 2) && usable(i + 3))
      some(rows_backward<T, centred, weighted, 4>, 4);
    else if (passes_over(i)) ++i;
    else some(rows_backward<T, centred, weighted, 1>, 1);
  }
}

template <class T>
void layer_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight,
                    Index rows, Index n) {
  if (n == 1) {  // the result is the bias; by the formula above dx would be rounding errors times 1 / sqrt(eps)
    if (dx != nullptr) memset(dx, 0, sizeof(T) * rows);
    for (Index i = 0; dbias != nullptr && i < rows; ++i) *dbias += dy[i];
    return;
  }
  const auto run = weight != nullptr ? backward<T, true, true> : backward<T, true, false>;
  run(dx, dweight, dbias, dy, x, statistics, weight, rows, n);
}

template <class T> void rms_forward(T* y, T* statistics, const T* x, const T* weight, T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T square = sum_vectors<T>(n,
                                    [=](Index j, auto at) {
                                      __builtin_prefetch(y + j);
                                      return Product<T>{at(x + j), at(x + j)};
                                    }) /
                     static_cast<T>(n);
    T factor = 1 / static_cast<T>(sqrt(square + eps));
    if (!in_range(square + eps)) {
      double mean;
      factor = static_cast<T>(wide_factor(x, n, false, static_cast<double>(eps), mean));
    }
    statistics[i] = factor;
    const Vec<T> f = splat<T>(factor);
    const T* next = x + next_row(n);
    const auto h = [=](Index j, auto at) {
      __builtin_prefetch(next + j);
      return at(x + j) * f;
    };
    if (weight != nullptr) {
      each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) * at(weight + j)); });
    } else {
      each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at)); });
    }
  }
}

template <class T>
void rms_backward(T* dx, T* dweight, T*, const T* dy, const T* x, const T* statistics, const T* weight, Index rows,
                  Index n) {
  const auto run = weight != nullptr ? backward<T, false, true> : backward<T, false, false>;
  run(dx, dweight, nullptr, dy, x, statistics, weight, rows, n);
}

}  // namespace

QKV_FAMILY(Norm, layer_forward<T>, add_layer_forward<T>, layer_backward<T>, rms_forward<T>, rms_backward<T>)

}  // namespace qkv::kernels::QKV_ISA
