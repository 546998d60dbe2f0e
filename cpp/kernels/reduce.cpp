#include "kernels/reduce.h"

#include "kernels/simd/family.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

template <class T> T sum_block(const T* x, Index n) {
  return sum_sixteen<T>(n, [=](Index i) { return x[i]; });
}

// Blocks are added in double, so that the error does not grow with the length.
template <class T> T sum(const T* x, Index n) {
  constexpr Index kBlock = 1024;
  if (n <= kBlock) return sum_block(x, n);
  double total = 0;
  for (Index i = 0; i < n; i += kBlock) total += sum_block(x + i, n - i < kBlock ? n - i : kBlock);
  return static_cast<T>(total);
}

// The same sum of fewer than 16 numbers: zeros replace those that are missing, and halves are folded.
template <class T> inline T short_sum(const T* x, Index n) {
  T part[16] = {};
  for (Index j = 0; j < n; ++j) part[j] = x[j];
  if (n > 8)
    for (Index j = 0; j < 8; ++j) part[j] += part[j + 8];
  if (n > 4)
    for (Index j = 0; j < 4; ++j) part[j] += part[j + 4];
  return (part[0] + part[2]) + (part[1] + part[3]);
}

template <class T> void sum_of_rows(T* y, const T* x, Index rows, Index n) {
  if (n < 16) {
    for (Index i = 0; i < rows; ++i) y[i] = short_sum(x + i * n, n);
  } else {
    for (Index i = 0; i < rows; ++i) y[i] = sum(x + i * n, n);
  }
}

template <class T> T product(const T* x, Index n) {
  return fold_sixteen(T(1), n, [=](Index i) { return x[i]; }, [](T a, T b) { return a * b; });
}

template <class T> void product_of_rows(T* y, const T* x, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i) y[i] = product(x + i * n, n);
}

enum class Extreme { most, least };

// The larger, or the smaller, of a and b, and NaN where one of them is.
template <class T, Extreme e> inline Vec<T> extreme(Vec<T> a, Vec<T> b) {
  return select(a != a, a, e == Extreme::most ? maximum(a, b) : minimum(a, b));
}
template <Extreme e, class T> inline T extreme_number(T a, T b) {
  return a != a || (e == Extreme::most ? a > b : a < b) ? a : b;
}

template <Extreme e, class T> T extreme_of_row(const T* x, Index n) {
  constexpr Index L = kLanes<T>;
  if (n < L) {
    T best = x[0];
    for (Index i = 1; i < n; ++i) best = extreme_number<e>(x[i], best);
    return best;
  }
  // Four at a time; the last vector may overlap the one before, which changes no extreme.
  Vec<T> best[4];
  for (Vec<T>& b : best) b = load(x);
  Index i = L;
  for (; i + 4 * L <= n; i += 4 * L)
    for (Index k = 0; k < 4; ++k) best[k] = extreme<T, e>(load(x + i + k * L), best[k]);
  for (; i + L <= n; i += L) best[0] = extreme<T, e>(load(x + i), best[0]);
  best[1] = extreme<T, e>(load(x + n - L), best[1]);
  T lane[L];
  store(lane, extreme<T, e>(extreme<T, e>(best[0], best[1]), extreme<T, e>(best[2], best[3])));
  T top = lane[0];
  for (Index k = 1; k < L; ++k) top = extreme_number<e>(lane[k], top);
  return top;
}

template <Extreme e, class T> void extremes_of_rows(T* y, const T* x, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i) y[i] = extreme_of_row<e>(x + i * n, n);
}

// By blocks that stay in the cache, of which the one that holds the extreme is looked through again.
template <Extreme e, class T> Index place_of_extreme(const T* x, Index n) {
  constexpr Index kBlock = 1024, L = kLanes<T>;
  T best = x[0];
  Index at = 0;
  for (Index i = 0; i < n && best == best; i += kBlock) {
    const T here = extreme_of_row<e>(x + i, n - i < kBlock ? n - i : kBlock);
    if (here == here && !(e == Extreme::most ? here > best : here < best)) continue;
    best = here;
    at = i;
  }
  if (best == best) {
    const Vec<T> wanted = splat<T>(best);
    while (at + L <= n && !any(load(x + at) == wanted)) at += L;
    while (x[at] != best) ++at;
  } else {
    while (x[at] == x[at]) ++at;
  }
  return at;
}

template <Extreme e, class T> void places_of_extremes(int64_t* at, const T* x, Index rows, Index n) {
  for (Index i = 0; i < rows; ++i) at[i] = place_of_extreme<e>(x + i * n, n);
}

// y = the rows of x combined, eight at a time, pairwise, and then one by one. Whole rows are read in their order; y
// stays in the cache.
template <class T, class F> void combine_rows(T* y, const T* x, Index step, Index rows, Index n, F f) {
  Index i = 1;
  if (rows > 0) each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, at(x + j)); });
  for (; i + 8 <= rows; i += 8) {
    const T* p = x + i * step;
    each_vector<T>(n, [=](Index j, auto at) {
      const auto row = [&](Index k) { return at(p + k * step + j); };
      const Vec<T> low = f(f(row(0), row(1)), f(row(2), row(3))), high = f(f(row(4), row(5)), f(row(6), row(7)));
      at.put(y + j, f(f(low, high), at(y + j)));
    });
  }
  for (; i < rows; ++i) {
    const T* p = x + i * step;
    each_vector<T>(n, [=](Index j, auto at) { at.put(y + j, f(at(p + j), at(y + j))); });
  }
}

// Narrow rows next to each other are combined several at a time, as one row of about 512 numbers, whose parts are
// combined at the end.
template <class T, class F> void combine_columns(T* y, const T* x, Index step, Index rows, Index n, F f) {
  constexpr Index kNarrow = 64, kWide = 512;
  const Index together = kWide / (n < 1 ? 1 : n);
  if (step != n || n >= kNarrow || rows < 2 * together) return combine_rows(y, x, step, rows, n, f);
  T wide[kWide];
  const Index width = together * n, whole = rows / together;
  combine_rows(wide, x, width, whole, width, f);
  combine_rows(y, wide, n, together, n, f);
  if (const Index rest = rows - whole * together; rest > 0) {
    combine_rows(wide, x + whole * width, n, rest, n, f);
    each_vector<T>(n, [&](Index j, auto at) { at.put(y + j, f(at(y + j), at(wide + j))); });
  }
}

template <class T> void sum_of_columns(T* y, const T* x, Index step, Index rows, Index n) {
  if (rows == 0)
    for (Index j = 0; j < n; ++j) y[j] = 0;
  combine_columns(y, x, step, rows, n, [](Vec<T> a, Vec<T> b) { return a + b; });
}

template <class T> void product_of_columns(T* y, const T* x, Index step, Index rows, Index n) {
  if (rows == 0)
    for (Index j = 0; j < n; ++j) y[j] = 1;
  combine_columns(y, x, step, rows, n, [](Vec<T> a, Vec<T> b) { return a * b; });
}

template <Extreme e, class T> void extremes_of_columns(T* y, const T* x, Index step, Index rows, Index n) {
  combine_columns(y, x, step, rows, n, [](Vec<T> a, Vec<T> b) { return extreme<T, e>(a, b); });
}

}  // namespace

QKV_FAMILY(Reduce, sum<T>, sum_of_rows<T>, sum_of_columns<T>, product_of_rows<T>, product_of_columns<T>,
           extremes_of_rows<Extreme::most, T>, extremes_of_columns<Extreme::most, T>,
           extremes_of_rows<Extreme::least, T>, extremes_of_columns<Extreme::least, T>,
           places_of_extremes<Extreme::most, T>, places_of_extremes<Extreme::least, T>)

}  // namespace qkv::kernels::QKV_ISA
