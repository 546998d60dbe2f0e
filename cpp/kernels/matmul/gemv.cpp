#include "kernels/matmul/gemv.h"

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"
#include "kernels/simd/sums.h"
#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Longer sums are made of blocks that are added in double, so that the error does not grow.
constexpr Index kBlock = 4096;

// The products of n <= kBlock numbers, summed by lanes.
template <class T> inline Vec<T> products(const T* a, const T* b, Index n) {
  return sum_of_vectors<T>(n, [=](Index j, auto at) { return Product<T>{at(a + j), at(b + j)}; });
}

template <class T> T dot(const T* a, const T* b, Index n) {
  if (n <= kBlock) return horizontal_sum<T>(products(a, b, n));
  double total = 0;
  for (Index i = 0; i < n; i += kBlock)
    total += static_cast<double>(horizontal_sum<T>(products(a + i, b + i, n - i < kBlock ? n - i : kBlock)));
  return static_cast<T>(total);
}

// As many rows together as a vector has lanes, whose sums are then made side by side, in the order of horizontal_sum.
template <class T>
void rows(T* y, Index step_y, const T* a, Index lda, const T* x, bool adds, Index rows, Index depth) {
  constexpr Index L = kLanes<T>;
  Index i = 0;
  for (; i + L <= rows && depth <= kBlock; i += L) {
    Vec<T> v[L];
    for (Index r = 0; r < L; ++r) v[r] = products(a + (i + r) * lda, x, depth);
    T sum[L];
    store(sum, sum_each<T>(v));
    for (Index r = 0; r < L; ++r) y[(i + r) * step_y] = adds ? y[(i + r) * step_y] + sum[r] : sum[r];
  }
  for (; i < rows; ++i) {
    const T sum = dot(a + i * lda, x, depth);
    y[i * step_y] = adds ? y[i * step_y] + sum : sum;
  }
}

// Eight rows of b at a time, whose products are added pairwise; 256 rows before their sum is added to y. So many
// columns at a time that their sums stay in the first cache.
template <class T>
void columns(T* y, const T* x, Index step_x, const T* b, Index ldb, bool adds, Index depth, Index columns) {
  constexpr Index kColumns = 2048, kRows = 256;
  T part[kColumns];
  for (Index first = 0; first < columns; first += kColumns) {
    const Index width = columns - first < kColumns ? columns - first : kColumns;
    T* to = y + first;
    if (!adds)
      for (Index j = 0; j < width; ++j) to[j] = 0;
    for (Index k = 0; k < depth; k += kRows) {
      const Index last = depth - k < kRows ? depth : k + kRows;
      T* sum = depth <= kRows ? to : part;
      if (sum == part)
        for (Index j = 0; j < width; ++j) part[j] = 0;
      Index i = k;
      for (; i + 8 <= last; i += 8) {
        Vec<T> factor[8];
        for (Index r = 0; r < 8; ++r) factor[r] = splat(x[(i + r) * step_x]);
        const T* from = b + i * ldb + first;
        each_vector<T>(width, [&](Index j, auto at) {
          const auto row = [&](Index r) { return at(from + r * ldb + j); };
          const auto two = [&](Index r) { return fused(row(r), factor[r], row(r + 1) * factor[r + 1]); };
          const Vec<T> p = two(0), q = two(2), r = two(4), s = two(6);
          at.put(sum + j, at(sum + j) + ((p + q) + (r + s)));
        });
      }
      for (; i < last; ++i) {
        const Vec<T> factor = splat(x[i * step_x]);
        each_vector<T>(
            width, [&](Index j, auto at) { at.put(sum + j, fused(factor, at(b + i * ldb + first + j), at(sum + j))); });
      }
      if (sum == part) each_vector<T>(width, [&](Index j, auto at) { at.put(to + j, at(to + j) + at(part + j)); });
    }
  }
}

}  // namespace

QKV_FAMILY(Gemv, rows<T>, columns<T>)

}  // namespace qkv::kernels::QKV_ISA
