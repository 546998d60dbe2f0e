#include "kernels/elementwise.h"

#include <math.h>

#include "kernels/simd_math.h"
#include "kernels/vector_sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr Index kRowsAhead = 8;  // fetched while others are summed

template <class T, class F> void each_pair(T* y, const T* a, Index step_a, const T* b, Index step_b, Index n, F f) {
  if (step_a == 1 && step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a == 1) {
    const T right = *b;
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], right);
  } else if (step_b == 1) {
    const T left = *a;
    for (Index i = 0; i < n; ++i) y[i] = f(left, b[i]);
  } else {
    const T value = f(*a, *b);
    for (Index i = 0; i < n; ++i) y[i] = value;
  }
}

inline float power(float a, float b) { return powf(a, b); }
inline double power(double a, double b) { return pow(a, b); }

template <class T> void binary(Binary op, T* y, const T* a, Index sa, const T* b, Index sb, Index n) {
  switch (op) {
    case Binary::add:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p + q; });
    case Binary::subtract:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p - q; });
    case Binary::multiply:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p * q; });
    case Binary::divide:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p / q; });
    case Binary::power:
      if (sb == 0 && *b == T(2)) return each_pair(y, a, sa, b, sb, n, [](T p, T) { return p * p; });
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return power(p, q); });
    case Binary::maximum:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p > q || p != p ? p : q; });
    case Binary::gradient_times:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p == 0 ? p : p * q; });
    case Binary::gradient_over:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p == 0 ? p : p / q; });
  }
}

template <class T> void unary(Unary op, T* y, const T* x, Index n) {
  switch (op) {
    case Unary::negate:
      for (Index i = 0; i < n; ++i) y[i] = -x[i];
      return;
    case Unary::absolute:
      for (Index i = 0; i < n; ++i) y[i] = __builtin_fabs(x[i]);
      return;
    case Unary::exponential:
      return map_vectors(y, x, n, [](Vec<T> v) { return exp_of<T>(v); });
    case Unary::logarithm:
      return map_vectors(y, x, n, [](Vec<T> v) { return log_of<T>(v); });
    case Unary::square_root:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(sqrt(x[i]));
      return;
    case Unary::sine:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(sin(x[i]));
      return;
    case Unary::cosine:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(cos(x[i]));
      return;
  }
}

template <class T> void unary_backward(Unary op, T* dx, const T* dy, const T* y, const T* x, Index n) {
  switch (op) {
    case Unary::negate:
      for (Index i = 0; i < n; ++i) dx[i] = -dy[i];
      return;
    case Unary::absolute:
      for (Index i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dy[i] : x[i] < 0 ? -dy[i] : T(0);
      return;
    case Unary::exponential:
      for (Index i = 0; i < n; ++i) dx[i] = dy[i] == 0 ? T(0) : dy[i] * y[i];
      return;
    case Unary::logarithm:
      for (Index i = 0; i < n; ++i) dx[i] = dy[i] == 0 ? T(0) : dy[i] / x[i];
      return;
    case Unary::square_root:
      for (Index i = 0; i < n; ++i) dx[i] = dy[i] == 0 ? T(0) : dy[i] / (2 * y[i]);
      return;
    case Unary::sine:
      for (Index i = 0; i < n; ++i) dx[i] = dy[i] == 0 ? T(0) : dy[i] * static_cast<T>(cos(x[i]));
      return;
    case Unary::cosine:
      for (Index i = 0; i < n; ++i) dx[i] = dy[i] == 0 ? T(0) : -dy[i] * static_cast<T>(sin(x[i]));
      return;
  }
}

template <class T, class F> void compare_pair(bool* y, const T* a, Index sa, const T* b, Index sb, Index n, F f) {
  for (Index i = 0; i < n; ++i) y[i] = f(a[i * sa], b[i * sb]);
}

template <class T> void compare(Compare op, bool* y, const T* a, Index sa, const T* b, Index sb, Index n) {
  switch (op) {
    case Compare::equal:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p == q; });
    case Compare::not_equal:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p != q; });
    case Compare::less:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p < q; });
    case Compare::less_equal:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p <= q; });
    case Compare::greater:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p > q; });
    case Compare::greater_equal:
      return compare_pair(y, a, sa, b, sb, n, [](T p, T q) { return p >= q; });
  }
}

template <class T> void add_scaled(T* y, const T* x, T alpha, Index n) {
  for (Index i = 0; i < n; ++i) y[i] += alpha * x[i];
}

template <class T> void add_product(T* y, const T* a, const T* b, Index n) {
  for (Index i = 0; i < n; ++i) y[i] += a[i] * b[i];
}

// Columns first to last of one sum, with N vectors of them in registers.
template <class T, int N, class At>
void sum_columns(T* y, const T* x, Index step, const Index* order, Index count, Index ahead, At at) {
  Vec<T> sum[N] = {};
  for (Index k = 0; k < count; ++k) {
    const T *row = x + order[k] * step, *next = x + order[k < ahead ? k + kRowsAhead : k] * step;
    for (Index i = 0; i < N; ++i) {
      __builtin_prefetch(next + i * kLanes<T>);
      sum[i] += at(row + i * kLanes<T>);
    }
  }
  for (Index i = 0; i < N; ++i) at.put(y + i * kLanes<T>, sum[i]);
}

// Rows in any order come from memory at half the pace unless they are fetched ahead.
template <class T>
void sum_rows(T* y, const T* x, Index step, const Index* starts, const Index* order, Index rows, Index n) {
  constexpr Index L = kLanes<T>;
  const Index end = starts[rows];
  for (Index i = 0; i < rows; ++i, y += step) {
    const Index first = starts[i], count = starts[i + 1] - first, ahead = end - kRowsAhead - first;
    Index c = 0;
    for (; c + 8 * L <= n; c += 8 * L) sum_columns<T, 8>(y + c, x + c, step, order + first, count, ahead, Whole<T>{});
    for (; c + L <= n; c += L) sum_columns<T, 1>(y + c, x + c, step, order + first, count, ahead, Whole<T>{});
    if (c < n) sum_columns<T, 1>(y + c, x + c, step, order + first, count, ahead, Part<T>{n - c});
  }
}

// Sixteen running sums, combined pairwise: the order is the same at every instruction-set level.
template <class T> T sum_block(const T* x, Index n) {
  T part[16] = {};
  Index i = 0;
  for (; i + 16 <= n; i += 16)
    for (Index j = 0; j < 16; ++j) part[j] += x[i + j];
  for (Index j = 0; i < n; ++i, ++j) part[j] += x[i];
  for (Index width = 8; width > 0; width /= 2)
    for (Index j = 0; j < width; ++j) part[j] += part[j + width];
  return part[0];
}

// Blocks are added in double, so that the error does not grow with the length.
template <class T> T sum(const T* x, Index n) {
  constexpr Index kBlock = 1024;
  if (n <= kBlock) return sum_block(x, n);
  double total = 0;
  for (Index i = 0; i < n; i += kBlock) total += sum_block(x + i, n - i < kBlock ? n - i : kBlock);
  return static_cast<T>(total);
}

}  // namespace

template <class T> Elementwise<T> elementwise_kernels() {
  return {binary<T>, unary<T>, unary_backward<T>, compare<T>, add_scaled<T>, add_product<T>, sum_rows<T>, sum<T>};
}

template Elementwise<float> elementwise_kernels<float>();
template Elementwise<double> elementwise_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
