// Loops over vectors that sum something up, with the incomplete vector at the end.
#pragma once

#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {

// The lanes before n.
template <class T> inline Mask<T> first_lanes(Index n) {
  Mask<T> lane;
  for (int i = 0; i < static_cast<int>(kLanes<T>); ++i) lane[i] = i;
  return lane < static_cast<typename VectorTypes<T>::Integer>(n);
}

// Numbers from position j on, all of them or the first `part`.
template <class T> struct Whole {
  Vec<T> operator()(const T* p) const { return load(p); }
  void put(T* p, Vec<T> v) const { store(p, v); }
};
template <class T> struct Part {
  Index part;
  Vec<T> operator()(const T* p) const { return load_part(p, part); }
  void put(T* p, Vec<T> v) const { store_part(p, v, part); }
};

// f(part, j, at) for the vectors of the incomplete line at the end: n numbers from j on, fewer than a line.
template <class T, class F> inline __attribute__((always_inline)) void rest_of_line(Index j, Index n, F f) {
  constexpr Index L = kLanes<T>;
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p, j += L, n -= L) {
    if (n >= L) f(p, j, Whole<T>{});
    else if (n > 0) f(p, j, Part<T>{n});
  }
}
// What a loop may add: a vector, or a product, which is fused into the sum.
template <class T> struct Product {
  Vec<T> a, b;
};
template <class T> inline Vec<T> plus(Vec<T> sum, Vec<T> x) { return sum + x; }
template <class T> inline Vec<T> plus(Vec<T> sum, Product<T> x) { return fused(x.a, x.b, sum); }

// sum + x in the lanes that exist: a product x is fused into the sum as it is where all lanes do.
template <class T, class At> inline Vec<T> kept_inside(Vec<T> sum_with_x, Vec<T> sum, At at) {
  if constexpr (requires { at.part; }) return select(first_lanes<T>(at.part), sum_with_x, sum);
  return sum_with_x;
}

// The sum of f(j, at) over n numbers, a vector at a time: at(x + j) reads and at.put(y + j, v) writes those that exist.
// Lanes after the end do not count. Four running lines of sums, because one addition takes as long as four start: a
// row in L1 is summed at 1.9 times the pace of two sums. The order is the same at every level. sum_of_vectors leaves
// the sums of the lanes apart.
template <class T, class F> inline Vec<T> sum_of_vectors(Index n, F f) {
  constexpr Index L = kLanes<T>, W = kLineNumbers<T>;
  Vec<T> part[4][kParts] = {};
  Index j = 0;
  for (; j + 4 * W <= n; j += 4 * W)
#pragma GCC unroll 4
    for (Index k = 0; k < 4; ++k)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) part[k][p] = plus<T>(part[k][p], f(j + k * W + p * L, Whole<T>{}));
  for (; j + W <= n; j += W)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) part[0][p] = plus<T>(part[0][p], f(j + p * L, Whole<T>{}));
  rest_of_line<T>(j, n - j, [&](int p, Index at_j, auto at) {
    part[1][p] = kept_inside<T>(plus<T>(part[1][p], f(at_j, at)), part[1][p], at);
  });
  Vec<T> sum[kParts];
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) sum[p] = (part[0][p] + part[1][p]) + (part[2][p] + part[3][p]);
  return folded<T>(sum);
}
template <class T, class F> inline T sum_vectors(Index n, F f) { return horizontal_sum<T>(sum_of_vectors<T>(n, f)); }

// Two sums in one pass: f(j, at) gives a pair of vectors. Two running lines each, because four take too many registers.
template <class T, class Second = Vec<T>> struct Two {
  Vec<T> first;
  Second second;
};
template <class T> struct TwoSums {
  T first, second;
};
template <class T, class F> inline TwoSums<T> two_sums(Index n, F f) {
  constexpr Index L = kLanes<T>, W = kLineNumbers<T>;
  Vec<T> first[2][kParts] = {}, second[2][kParts] = {};
  const auto add = [&](Index k, int p, Index j, auto at) __attribute__((always_inline)) {
    const auto v = f(j, at);
    first[k][p] = kept_inside<T>(first[k][p] + v.first, first[k][p], at);
    second[k][p] = kept_inside<T>(plus<T>(second[k][p], v.second), second[k][p], at);
  };
  Index j = 0;
  for (; j + 2 * W <= n; j += 2 * W)
#pragma GCC unroll 2
    for (Index k = 0; k < 2; ++k)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) add(k, p, j + k * W + p * L, Whole<T>{});
  if (j + W <= n) {
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) add(0, p, j + p * L, Whole<T>{});
    j += W;
  }
  rest_of_line<T>(j, n - j, [&](int p, Index i, auto at) { add(1, p, i, at); });
#pragma GCC unroll 4
  for (int p = 0; p < kParts; ++p) first[0][p] += first[1][p], second[0][p] += second[1][p];
  return {horizontal_sum<T>(folded<T>(first[0])), horizontal_sum<T>(folded<T>(second[0]))};
}

// Sixteen running results of combine(result, f(j)), combined pairwise: the order is the same at every instruction-set
// level.
template <class S, class F, class Combine> inline S fold_sixteen(S start, Index n, F f, Combine combine) {
  S part[16];
  for (S& p : part) p = start;
  Index j = 0;
  for (; j + 16 <= n; j += 16)
    for (Index k = 0; k < 16; ++k) part[k] = combine(part[k], f(j + k));
  for (Index k = 0; j < n; ++j, ++k) part[k] = combine(part[k], f(j));
  for (Index width = 8; width > 0; width /= 2)
    for (Index k = 0; k < width; ++k) part[k] = combine(part[k], part[k + width]);
  return part[0];
}
template <class S, class F> inline S sum_sixteen(Index n, F f) {
  return fold_sixteen(S(0), n, f, [](S a, S b) { return a + b; });
}

// f(j, at) for n numbers, a vector at a time.
template <class T, class F> inline void each_vector(Index n, F f) {
  Index j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) f(j, Whole<T>{});
  if (j < n) f(j, Part<T>{n - j});
}

// dx = dy * derivative(x), and 0 where dy is, even if x holds NaN.
template <class T, class F> inline void put_gradients(T* dx, const T* dy, const T* x, Index n, F derivative) {
  each_vector<T>(n, [&](Index i, auto at) {
    const Vec<T> zero = {}, d = at(dy + i);
    at.put(dx + i, select(d == zero, zero, d * derivative(at(x + i))));
  });
}

}  // namespace qkv::kernels::QKV_ISA
