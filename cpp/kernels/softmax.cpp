#include "kernels/softmax.h"

#include <math.h>

namespace qkv::kernels::QKV_ISA {
namespace {

inline float exponential(float x) { return expf(x); }
inline double exponential(double x) { return exp(x); }
inline float logarithm(float x) { return logf(x); }
inline double logarithm(double x) { return log(x); }

// NaN wins, so that it reaches the result.
template <class T> T maximum(const T* x, Index n) {
  T top = -static_cast<T>(INFINITY);
  bool is_nan = false;
  for (Index j = 0; j < n; ++j) {
    top = x[j] > top ? x[j] : top;
    is_nan |= x[j] != x[j];
  }
  return is_nan ? static_cast<T>(NAN) : top;
}

// y = exp(scale * (x - top)); returns the sum.
template <class T> T exponentials(T* y, const T* x, T top, T scale, Index n) {
  T total = 0;
  for (Index j = 0; j < n; ++j) {
    y[j] = exponential(scale * (x[j] - top));
    total += y[j];
  }
  return total;
}

template <class T> bool forward(T* y, const T* x, T scale, bool empty_is_zero, Index rows, Index n) {
  bool found_nan = false;
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T top = maximum(x, n);
    if (empty_is_zero && top == -static_cast<T>(INFINITY)) {
      for (Index j = 0; j < n; ++j) y[j] = 0;
      continue;
    }
    const T total = exponentials(y, x, top, scale, n);
    found_nan |= total != total;
    const T factor = 1 / total;
    for (Index j = 0; j < n; ++j) y[j] *= factor;
  }
  return found_nan;
}

template <class T> T dot(const T* a, const T* b, bool skip_zeros, Index n) {
  T part[16] = {};
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) part[k] += skip_zeros && a[j + k] == 0 ? T(0) : a[j + k] * b[j + k];
  for (Index k = 0; j < n; ++j, ++k) part[k] += skip_zeros && a[j] == 0 ? T(0) : a[j] * b[j];
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) part[k] += part[k + width];
  return part[0];
}

template <class T> void backward(T* dx, const T* dy, const T* y, T scale, bool skip_zeros, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    const T mean = dot(y, dy, skip_zeros, n);
    if (skip_zeros) {
      for (Index j = 0; j < n; ++j) dx[j] += y[j] == 0 ? T(0) : scale * y[j] * (dy[j] - mean);
    } else {
      for (Index j = 0; j < n; ++j) dx[j] += scale * y[j] * (dy[j] - mean);
    }
  }
}

// logsumexp(scale * x) - scale * top, and top.
template <class T> T log_total(const T* x, T top, T scale, Index n) {
  T total = 0;
  for (Index j = 0; j < n; ++j) total += exponential(scale * (x[j] - top));
  return logarithm(total);
}

template <class T> void log_forward(T* y, const T* x, T scale, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, y += n, x += n) {
    const T top = maximum(x, n), rest = log_total(x, top, scale, n);
    for (Index j = 0; j < n; ++j) y[j] = scale * (x[j] - top) - rest;
  }
}

template <class T> T sum(const T* x, Index n) {
  T part[16] = {};
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) part[k] += x[j + k];
  for (Index k = 0; j < n; ++j, ++k) part[k] += x[j];
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) part[k] += part[k + width];
  return part[0];
}

template <class T> void log_backward(T* dx, const T* dy, const T* y, T scale, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, dx += n, dy += n, y += n) {
    const T total = sum(dy, n);
    for (Index j = 0; j < n; ++j) dx[j] += scale * (dy[j] - exponential(y[j]) * total);
  }
}

template <class T>
void exclude(T* y, const bool* allowed, Index allowed_step, const T* bias, Index bias_step, Index length, T value,
             Index n) {
  if (allowed != nullptr) {
    if (allowed_step == 0 && !*allowed) length = 0;
    if (allowed_step != 0)
      for (Index j = 0; j < length; ++j) y[j] = allowed[j] ? y[j] : value;
  }
  const T none = -static_cast<T>(INFINITY);
  if (bias != nullptr) {
    if (bias_step == 0 && *bias == none) length = 0;
    if (bias_step != 0)
      for (Index j = 0; j < length; ++j) y[j] = bias[j] == none ? value : y[j];
  }
  for (Index j = length; j < n; ++j) y[j] = value;
}

template <class T> void logsumexp(T* lse, const T* x, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i, x += n) {
    const T top = maximum(x, n);
    lse[i] = top + log_total(x, top, T(1), n);
  }
}

template <class T> void add_softmax(T* dx, const T* x, T lse, T a, const T* weight, T b, Index n) {
  if (weight == nullptr) {
    for (Index j = 0; j < n; ++j) dx[j] += a * exponential(x[j] - lse) - b;
  } else {
    for (Index j = 0; j < n; ++j) dx[j] += a * exponential(x[j] - lse) - b * weight[j];
  }
}

template <class T> double sum_centred(const T* x, T lse, const T* weight, Index n) {
  double part[8] = {};
  for (Index j = 0; j < n; ++j)
    part[j % 8] += static_cast<double>(x[j] - lse) * static_cast<double>(weight == nullptr ? T(1) : weight[j]);
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

}  // namespace

template <class T> Softmax<T> softmax_kernels() {
  return {forward<T>, backward<T>, log_forward<T>, log_backward<T>, exclude<T>, logsumexp<T>, add_softmax<T>,
          sum_centred<T>};
}

template Softmax<float> softmax_kernels<float>();
template Softmax<double> softmax_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
