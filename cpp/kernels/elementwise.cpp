#include "kernels/elementwise.h"

#include <math.h>
#include <stdint.h>

#include "kernels/simd/bytes.h"
#include "kernels/simd/division.h"
#include "kernels/simd/family.h"
#include "kernels/simd/math.h"
#include "kernels/simd/power.h"
#include "kernels/simd/stream.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/trigonometry.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr Index kRowsAhead = 8;  // fetched while others are summed
constexpr double kLn2 = 0.69314718055994530942, kLn10 = 2.30258509299404568402;
constexpr double kErfDerivative = 1.12837916709551257;  // of the error function at 0: 2 / sqrt(pi)

template <class Y, class T, class F>
void each_pair(Y* y, const T* a, Index step_a, const T* b, Index step_b, Index n, F f) {
  if (step_a == 1 && step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a == 1) {
    const T right = *b;
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], right);
  } else if (step_b == 1) {
    const T left = *a;
    for (Index i = 0; i < n; ++i) y[i] = f(left, b[i]);
  } else {
    const Y value = f(*a, *b);
    for (Index i = 0; i < n; ++i) y[i] = value;
  }
}

// run(left, right), which give the vectors of the operands from a place on; bits stay as they are.
template <class T, class F> void with_vectors(const T* a, Index step_a, const T* b, Index step_b, F run) {
  const auto numbers = [](const T* x) { return [x](Index i, auto at) { return at(x + i); }; };
  const auto one = [](const T* x) {
    Vec<T> v;
    for (Index i = 0; i < kLanes<T>; ++i) v[i] = *x;
    return [v](Index, auto) { return v; };
  };
  if (step_a == 1 && step_b == 1) run(numbers(a), numbers(b));
  else if (step_a == 1) run(numbers(a), one(b));
  else if (step_b == 1) run(one(a), numbers(b));
  else run(one(a), one(b));
}

// each_pair for an f of vectors.
template <class T, class F>
void each_vector_pair(T* y, const T* a, Index step_a, const T* b, Index step_b, Index n, F f) {
  if (n == 0) return;
  with_vectors(a, step_a, b, step_b, [&](auto left, auto right) {
    each_vector<T>(n, [&](Index i, auto at) { at.put(y + i, f(left(i, at), right(i, at))); });
  });
}

template <class T> void power(T* y, const T* a, Index sa, const T* b, Index sb, Index n) {
  if (sb == 0 && n > 0) {  // exponents for which a few instructions give the same as pow
    if (*b == T(2)) return each_pair(y, a, sa, b, sb, n, [](T p, T) { return p * p; });
    if (*b == T(-1)) return each_pair(y, a, sa, b, sb, n, [](T p, T) { return 1 / p; });
    if (sizeof(T) == sizeof(float) && *b == T(3)) {  // in double, so that it is rounded once
      return each_pair(y, a, sa, b, sb, n, [](T p, T) {
        const double wide = p;
        return static_cast<T>(wide * wide * wide);
      });
    }
    if (*b == T(0.5)) {
      const T infinity = static_cast<T>(INFINITY);  // pow(-inf, 0.5) is inf, and pow(-0, 0.5) is 0
      return each_pair(y, a, sa, b, sb, n,
                       [=](T p, T) { return p == -infinity ? infinity : static_cast<T>(sqrt(p + T(0))); });
    }
  }
  each_vector_pair(y, a, sa, b, sb, n, [](Vec<T> p, Vec<T> q) { return power_of<T>(p, q); });
}

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
      return power(y, a, sa, b, sb, n);
    case Binary::maximum:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p > q || p != p ? p : q; });
    case Binary::minimum:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p < q || p != p ? p : q; });
    case Binary::floor_divide:
      return each_vector_pair(y, a, sa, b, sb, n, [](Vec<T> p, Vec<T> q) { return floor_quotient<T>(p, q); });
    case Binary::remainder:
      return each_vector_pair(y, a, sa, b, sb, n, [](Vec<T> p, Vec<T> q) { return floor_remainder<T>(p, q); });
    case Binary::fmod:
      return each_vector_pair(y, a, sa, b, sb, n,
                              [](Vec<T> p, Vec<T> q) { return copy_sign(remainder_of<T>(p, q), p); });
    case Binary::gradient_times:
      return each_vector_pair(y, a, sa, b, sb, n, [](Vec<T> p, Vec<T> q) { return select(p == Vec<T>{}, p, p * q); });
    case Binary::gradient_over:
      return each_vector_pair(y, a, sa, b, sb, n, [](Vec<T> p, Vec<T> q) { return select(p == Vec<T>{}, p, p / q); });
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
    case Unary::exponential_less_one:
      return map_vectors(y, x, n, [](Vec<T> v) { return expm1_of<T>(v); });
    case Unary::logarithm:
      return map_vectors(y, x, n, [](Vec<T> v) { return log_of<T>(v); });
    case Unary::logarithm_of_one_more:
      return map_vectors(y, x, n, [](Vec<T> v) { return log1p_of<T>(v); });
    case Unary::logarithm_2:
      return map_vectors(y, x, n, [](Vec<T> v) { return log_of<T>(v) / splat(static_cast<T>(kLn2)); });
    case Unary::logarithm_10:
      return map_vectors(y, x, n, [](Vec<T> v) { return log_of<T>(v) / splat(static_cast<T>(kLn10)); });
    case Unary::square_root:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(sqrt(x[i]));
      return;
    case Unary::sine:
      return map_vectors(y, x, n, [](Vec<T> v) { return sin_of<T>(v); });
    case Unary::cosine:
      return map_vectors(y, x, n, [](Vec<T> v) { return cos_of<T>(v); });
    case Unary::tangent:
      return map_vectors(y, x, n, [](Vec<T> v) { return sin_of<T>(v) / cos_of<T>(v); });
    case Unary::hyperbolic_sine:
      return map_vectors(y, x, n, [](Vec<T> v) { return sinh_of<T>(v); });
    case Unary::hyperbolic_cosine:
      return map_vectors(y, x, n, [](Vec<T> v) { return cosh_of<T>(v); });
    case Unary::error_function:
      return map_vectors(y, x, n, [](Vec<T> v) { return erf_of<T>(v); });
    case Unary::floor:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(floor(x[i]));
      return;
    case Unary::ceiling:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(ceil(x[i]));
      return;
    case Unary::truncation:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(trunc(x[i]));
      return;
    case Unary::rounding:
      for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(rint(x[i]));
      return;
  }
}

template <class T> void unary_backward(Unary op, T* dx, const T* dy, const T* x, Index n) {
  switch (op) {
    case Unary::absolute:
      for (Index i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dy[i] : x[i] < 0 ? -dy[i] : T(0);
      return;
    case Unary::sine:
      return put_gradients(dx, dy, x, n, [](Vec<T> v) { return cos_of<T>(v); });
    case Unary::cosine:
      return put_gradients(dx, dy, x, n, [](Vec<T> v) { return -sin_of<T>(v); });
    case Unary::error_function:
      return put_gradients(dx, dy, x, n,
                           [](Vec<T> v) { return splat<T>(static_cast<T>(kErfDerivative)) * exp_of<T>(-v * v); });
    default:
      break;  // their derivatives are quotients and products, or 0
  }
}

template <class T> void compare(Compare op, bool* y, const T* a, Index sa, const T* b, Index sb, Index n) {
  switch (op) {
    case Compare::equal:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p == q; });
    case Compare::not_equal:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p != q; });
    case Compare::less:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p < q; });
    case Compare::less_equal:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p <= q; });
    case Compare::greater:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p > q; });
    case Compare::greater_equal:
      return each_pair(y, a, sa, b, sb, n, [](T p, T q) { return p >= q; });
  }
}

template <class T>
void select_numbers(T* y, const bool* choose, Index step, const T* a, Index sa, const T* b, Index sb, Index n) {
  constexpr Index L = kLanes<T>;
  if (n == 0) return;
  if (step == 0) {
    const T* from = *choose ? a : b;
    const Index along = *choose ? sa : sb;
    for (Index i = 0; i < n; ++i) y[i] = from[i * along];
    return;
  }
  const uint8_t* choices = reinterpret_cast<const uint8_t*>(choose);
  uint8_t last[L] = {};  // of a vector that is not whole
  __builtin_memcpy(last, choices + n / L * L, static_cast<size_t>(n % L));
  with_vectors(a, sa, b, sb, [&](auto left, auto right) {
    each_vector<T>(n, [&](Index i, auto at) {
      at.put(y + i, select_by(i + L <= n ? choices + i : last, left(i, at), right(i, at)));
    });
  });
}

template <class T> void clip(T* y, const T* x, T low, T high, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T above = x[i] < low ? low : x[i];
    y[i] = above > high ? high : above;
  }
}

template <class T> void clip_backward(T* dx, const T* dy, const T* x, T low, T high, Index n) {
  for (Index i = 0; i < n; ++i) {
    const T gradient = dy[i];
    dx[i] = ((x[i] < low) | (x[i] > high)) ? T(0) : gradient;
  }
}

template <class T> void add_scaled(T* y, const T* x, T alpha, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = fused(alpha, x[i], y[i]);
}

template <class T> void add_product(T* y, const T* a, const T* b, Index n) {
  for (Index i = 0; i < n; ++i) y[i] = fused(a[i], b[i], y[i]);
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

// Lines of 64 bytes as a whole, in order, however many vectors they have; what is left at the ends as usual.
template <class T, bool past_caches> void copy_lines(T* y, const T* x, const T* fetched, Index n) {
  constexpr Index line = 64 / Index{sizeof(T)};
  const Index before = past_caches ? static_cast<Index>(-reinterpret_cast<uintptr_t>(y) % 64 / sizeof(T)) : 0;
  Index i = 0;
  for (; i < before && i < n; ++i) y[i] = x[i];
  for (; i + line <= n; i += line) {
    __builtin_prefetch(fetched + i);
    for (Index lane = 0; lane < line; lane += kLanes<T>) {
      if (past_caches) stream(y + i + lane, load(x + i + lane));
      else store(y + i + lane, load(x + i + lane));
    }
  }
  for (; i < n; ++i) y[i] = x[i];
}

// The next row is fetched at the same time: rows in any order come from memory at half the pace otherwise.
template <class T> void pick_rows(T* y, const T* x, const int64_t* order, Index rows, Index n, bool past_caches) {
  for (Index i = 0; i < rows; ++i, y += n) {
    const T *row = x + order[i] * n, *next = x + order[i + 1 < rows ? i + 1 : i] * n;
    if (past_caches) copy_lines<T, true>(y, row, next, n);
    else copy_lines<T, false>(y, row, next, n);
  }
  if (past_caches) end_of_stream();
}

}  // namespace

QKV_FAMILY(Elementwise, binary<T>, unary<T>, unary_backward<T>, compare<T>, add_scaled<T>, add_product<T>, sum_rows<T>,
           pick_rows<T>, select_numbers<T>, clip<T>, clip_backward<T>)

}  // namespace qkv::kernels::QKV_ISA
