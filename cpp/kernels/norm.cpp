#include "kernels/norm.h"

#include <math.h>

namespace qkv::kernels::QKV_ISA {
namespace {

// Sixteen running sums of f(j), combined pairwise.
template <class T, class F> T sum_of(Index n, F f) {
  T part[16] = {};
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) part[k] += f(j + k);
  for (Index k = 0; j < n; ++j, ++k) part[k] += f(j);
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) part[k] += part[k + width];
  return part[0];
}

template <class T> bool finite(T x) { return x - x == 0; }

// centre + shift is the mean; the spread is mean((x - mean)^2). Computed in S.
template <class S, class T> void moments(const T* x, Index n, S& centre, S& shift, S& spread) {
  const S count = static_cast<S>(n);
  const S c = static_cast<S>(static_cast<T>(sum_of<S>(n, [=](Index j) { return static_cast<S>(x[j]); }) / count));
  const S s = sum_of<S>(n, [=](Index j) { return static_cast<S>(x[j]) - c; }) / count;
  spread = sum_of<S>(n, [=](Index j) {
             const S d = static_cast<S>(x[j]) - c - s;
             return d * d;
           }) / count;
  centre = c;
  shift = s;
}

template <class T>
void layer_forward(T* y, T* statistics, const T* x, const T* weight, const T* bias, T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n, statistics += 3) {
    T centre, shift, spread;
    moments<T>(x, n, centre, shift, spread);
    T factor = 1 / static_cast<T>(sqrt(spread + eps));
    if (!finite(spread)) {  // the squares left the range of T
      double wide_centre, wide_shift, wide_spread;
      moments<double>(x, n, wide_centre, wide_shift, wide_spread);
      centre = static_cast<T>(wide_centre);
      shift = static_cast<T>(wide_shift);
      factor = static_cast<T>(1 / sqrt(wide_spread + static_cast<double>(eps)));
    }
    statistics[0] = centre;
    statistics[1] = shift;
    statistics[2] = factor;
    if (weight != nullptr && bias != nullptr) {
      for (Index j = 0; j < n; ++j) y[j] = (x[j] - centre - shift) * factor * weight[j] + bias[j];
    } else if (weight != nullptr) {
      for (Index j = 0; j < n; ++j) y[j] = (x[j] - centre - shift) * factor * weight[j];
    } else if (bias != nullptr) {
      for (Index j = 0; j < n; ++j) y[j] = (x[j] - centre - shift) * factor + bias[j];
    } else {
      for (Index j = 0; j < n; ++j) y[j] = (x[j] - centre - shift) * factor;
    }
  }
}

// With h = (x - mean) * factor and g = dy * weight: dx = factor * (g - mean(g) - h * mean(g * h)). For rms_norm the
// first mean is left out and h = x * factor.
template <class T, class Weight>
void row_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, T centre, T shift, T factor, bool centred,
                  Weight weight, Index n) {
  const auto h = [=](Index j) { return (x[j] - centre - shift) * factor; };
  if (dx != nullptr) {
    const T count = static_cast<T>(n);
    const T mean = centred ? sum_of<T>(n, [=](Index j) { return dy[j] * weight(j); }) / count : T(0);
    const T slope = sum_of<T>(n, [=](Index j) { return dy[j] * weight(j) * h(j); }) / count;
    for (Index j = 0; j < n; ++j) dx[j] += factor * (dy[j] * weight(j) - mean - h(j) * slope);
  }
  if (dweight != nullptr)
    for (Index j = 0; j < n; ++j) dweight[j] += dy[j] * h(j);
  if (dbias != nullptr)
    for (Index j = 0; j < n; ++j) dbias[j] += dy[j];
}

template <class T>
void backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight, bool centred,
              Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, dy += n, x += n) {
    const T centre = centred ? statistics[3 * i] : T(0), shift = centred ? statistics[3 * i + 1] : T(0);
    const T factor = centred ? statistics[3 * i + 2] : statistics[i];
    T* out = dx == nullptr ? nullptr : dx + i * n;
    if (weight != nullptr) {
      row_backward(out, dweight, dbias, dy, x, centre, shift, factor, centred, [=](Index j) { return weight[j]; }, n);
    } else {
      row_backward(out, dweight, dbias, dy, x, centre, shift, factor, centred, [](Index) { return T(1); }, n);
    }
  }
}

template <class T>
void layer_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight,
                    Index rows, Index n) {
  backward(dx, dweight, dbias, dy, x, statistics, weight, true, rows, n);
}

template <class T>
void rms_forward(T* y, T* statistics, const T* x, const T* weight, T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T square = sum_of<T>(n, [=](Index j) { return x[j] * x[j]; }) / static_cast<T>(n);
    T factor = 1 / static_cast<T>(sqrt(square + eps));
    if (!finite(square)) {
      const double wide = sum_of<double>(n, [=](Index j) {
                            const double value = static_cast<double>(x[j]);
                            return value * value;
                          }) / static_cast<double>(n);
      factor = static_cast<T>(1 / sqrt(wide + static_cast<double>(eps)));
    }
    statistics[i] = factor;
    if (weight != nullptr) {
      for (Index j = 0; j < n; ++j) y[j] = x[j] * factor * weight[j];
    } else {
      for (Index j = 0; j < n; ++j) y[j] = x[j] * factor;
    }
  }
}

template <class T>
void rms_backward(T* dx, T* dweight, const T* dy, const T* x, const T* statistics, const T* weight, Index rows,
                  Index n) {
  backward(dx, dweight, static_cast<T*>(nullptr), dy, x, statistics, weight, false, rows, n);
}

}  // namespace

template <class T> Norm<T> norm_kernels() {
  return {layer_forward<T>, layer_backward<T>, rms_forward<T>, rms_backward<T>};
}

template Norm<float> norm_kernels<float>();
template Norm<double> norm_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
