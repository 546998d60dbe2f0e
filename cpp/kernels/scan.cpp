#include "kernels/scan.h"

#include "kernels/simd/doubles.h"
#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// R rows at a time, so that what they make of a column is read and written once for all of them.
template <class T, int R, class F> inline void some_rows(T* y, double* before, Index step, Index n, F f) {
  const auto columns = [=](Index j, Index count) __attribute__((always_inline)) {
    Vec<double> made = wide(before + j, count);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      made = f(made, [=](const T* p) { return wide(p + r * step + j, count); });
      put(y + r * step + j, made, count);
    }
    put(before + j, made, count);
  };
  Index j = 0;
  for (; j + kWide <= n; j += kWide) columns(j, kWide);
  if (j < n) columns(j, n - j);
}

// f(before, at) gives what a row makes of a column, or of a vector of them; at(x) are the numbers there of an array
// whose first row starts at x.
template <class T, class F> inline void down_columns(T* y, double* before, Index step, Index rows, Index n, F f) {
  Index i = 0;
  if (n == 1) {
    double made = before[0];
    for (; i < rows; ++i)
      y[i * step] = static_cast<T>(made = f(made, [=](const T* p) { return static_cast<double>(p[i * step]); }));
    before[0] = made;
    return;
  }
  const auto from = [=](Index row) {
    return [=](auto made, auto at) { return f(made, [=](const T* p) { return at(p + row * step); }); };
  };
  for (; i + 4 <= rows; i += 4) some_rows<T, 4>(y + i * step, before, step, n, from(i));
  for (; i < rows; ++i) some_rows<T, 1>(y + i * step, before, step, n, from(i));
}

template <class T> void sums(T* y, double* before, const T* x, Index step, Index rows, Index n) {
  // In pairs, which wait for one addition each; double's last digits, where the order tells, are float64's results.
  if (sizeof(T) == sizeof(float) && n == 1) {
    double made = before[0];
    for (; rows > 1; rows -= 2, x += 2 * step, y += 2 * step) {
      const double first = static_cast<double>(x[0]), both = first + static_cast<double>(x[step]);
      y[0] = static_cast<T>(made + first);
      y[step] = static_cast<T>(made += both);
    }
    before[0] = made;
  }
  down_columns(y, before, step, rows, n, [=](auto made, auto at) { return made + at(x); });
}

template <class T> void products(T* y, double* before, const T* x, Index step, Index rows, Index n) {
  down_columns(y, before, step, rows, n, [=](auto made, auto at) { return made * at(x); });
}

template <class T> void linear(T* y, double* before, const T* a, const T* b, Index step, Index rows, Index n) {
  down_columns(y, before, step, rows, n, [=](auto made, auto at) { return fused(at(b), made, at(a)); });
}

}  // namespace

QKV_FAMILY(Scan, sums<T>, products<T>, linear<T>)

}  // namespace qkv::kernels::QKV_ISA
