// Arithmetic and functions of one or two numbers.
#pragma once

#include <stdint.h>

#include "core/index.h"

namespace qkv::kernels {

// floor_divide and remainder are NumPy's: the quotient is rounded down, so the remainder has the sign of b; that of
// fmod is rounded towards 0, so it has the sign of a. The last two are multiply and divide for a gradient a: where it
// is 0 the result is 0, even if b holds NaN.
enum class Binary {
  add,
  subtract,
  multiply,
  divide,
  power,
  maximum,
  minimum,
  floor_divide,
  remainder,
  fmod,
  gradient_times,
  gradient_over
};
// The sign of NaN is 0; rounding takes halves to the even number.
enum class Unary {
  negate,
  absolute,
  exponential,
  exponential_less_one,
  logarithm,
  logarithm_of_one_more,
  logarithm_2,
  logarithm_10,
  square_root,
  sine,
  cosine,
  tangent,
  hyperbolic_sine,
  hyperbolic_cosine,
  error_function,
  floor,
  ceiling,
  truncation,
  rounding
};
enum class Compare { equal, not_equal, less, less_equal, greater, greater_equal };

template <class T> struct Elementwise {
  // y[i] = a[i * step_a] op b[i * step_b]; a step is 0 (one number for all) or 1.
  void (*binary)(Binary op, T* y, const T* a, Index step_a, const T* b, Index step_b, Index n);
  // y[i] = op(x[i]).
  void (*unary)(Unary op, T* y, const T* x, Index n);
  // dx[i] = dy[i] * op'(x[i]), and 0 where dy[i] is 0; y is op(x). The derivative of |x| at 0 is 0.
  void (*unary_backward)(Unary op, T* dx, const T* dy, const T* x, Index n);
  void (*compare)(Compare op, bool* y, const T* a, Index step_a, const T* b, Index step_b, Index n);
  // y += alpha * x.
  void (*add_scaled)(T* y, const T* x, T alpha, Index n);
  // y += a * b.
  void (*add_product)(T* y, const T* a, const T* b, Index n);
  // y (rows, n): row i is the sum of the rows of x that are in order[starts[i]] to order[starts[i + 1] - 1], added in
  // this order; zeros where there are none. Rows of x and of y lie `step` apart.
  void (*sum_rows)(T* y, const T* x, Index step, const Index* starts, const Index* order, Index rows, Index n);
  // y (rows, n): row i is the row of x, of n numbers, that has the number order[i].
  void (*pick_rows)(T* y, const T* x, const int64_t* order, Index rows, Index n, bool past_caches);
  // y[i] = choose[i * step] ? a[i * step_a] : b[i * step_b]; steps are 0 or 1.
  void (*select)(T* y, const bool* choose, Index step, const T* a, Index step_a, const T* b, Index step_b, Index n);
  // y[i] = low where x[i] < low, high where x[i] > high, else x[i].
  void (*clip)(T* y, const T* x, T low, T high, Index n);
  // dx[i] = dy[i] where x[i] is from low to high or NaN, else 0.
  void (*clip_backward)(T* dx, const T* dy, const T* x, T low, T high, Index n);
};

}  // namespace qkv::kernels
