// int64 arithmetic, comparisons and reductions: NumPy's results to the last bit. Overflow wraps.
#pragma once

#include "kernels/elementwise.h"
#include "ops/reductions.h"

namespace qkv::ops {

// Of two arrays of integers or booleans, which broadcast to `shape`; all but division give int64. A negative exponent
// is a ValueError. Rounded down, n // 0 and n % 0 are 0.
Array integer_binary(Binary op, const Array& a, const Array& b, const Shape& shape);
Array integer_compare(Compare op, const Array& a, const Array& b, const Shape& shape);
Array integer_unary(Unary op, const Array& x);  // negate and absolute
// The low bytes of each number, as C++ converts it to such an integer; x itself where that changes none.
Array cut_to_width(const Array& x, int bytes, bool has_sign);
// (..., m, k) @ (..., k, n), whose axes in front broadcast to `batch`.
Array integer_matmul(const Array& a, const Array& b, const Shape& batch);
// Of x, int64 from any integers or booleans.
Array integer_sum(const Array& x, const ReducedAxes& p);
Array integer_product(const Array& x, const ReducedAxes& p);
Array integer_extreme(bool largest, const Array& x, const ReducedAxes& p);
// rows (..., length) to `result`: where the first such number of each is.
Array integer_place(bool largest, const Array& rows, Index length, const Shape& result);

}  // namespace qkv::ops
