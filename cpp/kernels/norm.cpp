#include "kernels/norm.h"

#include <math.h>

#include "kernels/vector_sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> bool finite(T x) { return x - x == 0; }

// centre + shift is the mean; the spread is mean((x - mean)^2). Around the centre, which is the mean up to rounding, the
// square of the shift is far below the spread, so one pass gives both.
template <class T> void moments(const T* x, Index n, T& centre, T& shift, T& spread) {
  const T count = static_cast<T>(n);
  centre = sum_vectors<T>(n, [=](Index j, auto at) { return at(x + j); }) / count;
  const Vec<T> c = splat<T>(centre);
  const TwoSums<T> sums = two_sums<T>(n, [=](Index j, auto at) {
    const Vec<T> d = at(x + j) - c;
    return Two<T>{d, d * d};
  });
  shift = sums.first / count;
  spread = sums.second / count - shift * shift;
  if (spread < 0) spread = 0;
}

// The same where the squares leave the range of T.
template <class T> void wide_moments(const T* x, Index n, double& mean, double& spread) {
  double sum = 0, squares = 0;
  for (Index j = 0; j < n; ++j) sum += static_cast<double>(x[j]);
  mean = sum / static_cast<double>(n);
  for (Index j = 0; j < n; ++j) squares += (static_cast<double>(x[j]) - mean) * (static_cast<double>(x[j]) - mean);
  spread = squares / static_cast<double>(n);
}

// y = (x - centre - shift) * factor * weight + bias.
template <class T>
void normalise(T* y, const T* x, T centre, T shift, T factor, const T* weight, const T* bias, Index n) {
  const Vec<T> c = splat<T>(centre), s = splat<T>(shift), f = splat<T>(factor);
  const auto h = [=](Index j, auto at) { return (at(x + j) - c - s) * f; };
  if (weight != nullptr && bias != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) * at(weight + j) + at(bias + j)); });
  } else if (weight != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) * at(weight + j)); });
  } else if (bias != nullptr) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at) + at(bias + j)); });
  } else {
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, h(j, at)); });
  }
}

template <class T>
void layer_row(T* y, T* statistics, const T* x, const T* weight, const T* bias, T eps, Index n) {
  T centre, shift, spread;
  moments(x, n, centre, shift, spread);
  T factor = 1 / static_cast<T>(sqrt(spread + eps));
  if (!finite(spread)) {
    double mean, wide_spread;
    wide_moments(x, n, mean, wide_spread);
    centre = static_cast<T>(mean);
    shift = static_cast<T>(mean - static_cast<double>(centre));
    factor = static_cast<T>(1 / sqrt(wide_spread + static_cast<double>(eps)));
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
void add_layer_forward(T* y, T* sum, T* statistics, const T* x, const T* residual, const T* weight, const T* bias, T eps,
                       Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, sum += n, x += n, residual += n) {
    each_vector<T>(n, [=](Index j, auto at) { at.put(sum + j, at(x + j) + at(residual + j)); });
    layer_row(y, statistics + 3 * i, sum, weight, bias, eps, n);
  }
}

// With h = (x - mean) * factor and g = dy * weight: dx = factor * (g - mean(g) - h * mean(g * h)). For rms_norm the
// first mean is left out and h = x * factor.
template <class T, bool centred, bool weighted>
void row_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight, Index n) {
  const Vec<T> zero = {};
  const Vec<T> centre = centred ? splat<T>(statistics[0]) : zero, shift = centred ? splat<T>(statistics[1]) : zero;
  const Vec<T> factor = splat<T>(statistics[centred ? 2 : 0]);
  const auto h = [=](Index j, auto at) { return (centred ? at(x + j) - centre - shift : at(x + j)) * factor; };
  const auto g = [=](Index j, auto at) { return weighted ? at(dy + j) * at(weight + j) : at(dy + j); };
  Vec<T> mean = zero, slope = zero;
  if (dx != nullptr) {
    const TwoSums<T> sums = two_sums<T>(n, [=](Index j, auto at) {
      const Vec<T> v = g(j, at);
      return Two<T>{v, v * h(j, at)};
    });
    const T count = static_cast<T>(n);
    if (centred) mean = splat<T>(sums.first / count);
    slope = splat<T>(sums.second / count);
  }
  each_vector<T>(n, [=](Index j, auto at) {
    const Vec<T> height = h(j, at);
    if (dx != nullptr) at.put(dx + j, factor * (g(j, at) - mean - height * slope));
    if (dweight != nullptr) at.put(dweight + j, at(dweight + j) + at(dy + j) * height);
    if (dbias != nullptr) at.put(dbias + j, at(dbias + j) + at(dy + j));
  });
}

template <class T, bool centred>
void backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight, Index rows,
              Index n) {
  for (Index i = 0; i < rows; ++i, dy += n, x += n, statistics += centred ? 3 : 1) {
    T* out = dx == nullptr ? nullptr : dx + i * n;
    if (weight != nullptr) row_backward<T, centred, true>(out, dweight, dbias, dy, x, statistics, weight, n);
    else row_backward<T, centred, false>(out, dweight, dbias, dy, x, statistics, weight, n);
  }
}

template <class T>
void layer_backward(T* dx, T* dweight, T* dbias, const T* dy, const T* x, const T* statistics, const T* weight,
                    Index rows, Index n) {
  backward<T, true>(dx, dweight, dbias, dy, x, statistics, weight, rows, n);
}

template <class T>
void rms_forward(T* y, T* statistics, const T* x, const T* weight, T eps, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T square = sum_vectors<T>(n, [=](Index j, auto at) { return at(x + j) * at(x + j); }) / static_cast<T>(n);
    T factor = 1 / static_cast<T>(sqrt(square + eps));
    if (!finite(square)) {
      double squares = 0;
      for (Index j = 0; j < n; ++j) squares += static_cast<double>(x[j]) * static_cast<double>(x[j]);
      factor = static_cast<T>(1 / sqrt(squares / static_cast<double>(n) + static_cast<double>(eps)));
    }
    statistics[i] = factor;
    const Vec<T> f = splat<T>(factor);
    if (weight != nullptr) {
      each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, at(x + j) * f * at(weight + j)); });
    } else {
      each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, at(x + j) * f); });
    }
  }
}

template <class T>
void rms_backward(T* dx, T* dweight, const T* dy, const T* x, const T* statistics, const T* weight, Index rows,
                  Index n) {
  backward<T, false>(dx, dweight, nullptr, dy, x, statistics, weight, rows, n);
}

}  // namespace

template <class T> Norm<T> norm_kernels() {
  return {layer_forward<T>, add_layer_forward<T>, layer_backward<T>, rms_forward<T>, rms_backward<T>};
}

template Norm<float> norm_kernels<float>();
template Norm<double> norm_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
