// Loops over vectors that sum something up, with the incomplete vector at the end.
#pragma once

#include "kernels/simd/simd.h"

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

// The sum of f(j, at) over n numbers, a vector at a time: at(x + j) reads and at.put(y + j, v) writes those that exist.
// Lanes after the end do not count. Four running sums, because one addition takes as long as four start: a row in L1
// is summed at 1.9 times the pace of two sums. sum_of_vectors leaves the sums of the lanes apart.
template <class T, class F> inline Vec<T> sum_of_vectors(Index n, F f) {
  constexpr Index L = kLanes<T>;
  Vec<T> part[4] = {};
  Index j = 0;
  for (; j + 4 * L <= n; j += 4 * L)
    for (Index k = 0; k < 4; ++k) part[k] += f(j + k * L, Whole<T>{});
  for (; j + L <= n; j += L) part[0] += f(j, Whole<T>{});
  if (j < n) part[1] += select(first_lanes<T>(n - j), f(j, Part<T>{n - j}), Vec<T>{});
  return (part[0] + part[1]) + (part[2] + part[3]);
}
template <class T, class F> inline T sum_vectors(Index n, F f) { return horizontal_sum<T>(sum_of_vectors<T>(n, f)); }

// Two sums in one pass: f(j, at) gives a pair of vectors.
template <class T> struct Two {
  Vec<T> first, second;
};
template <class T> struct TwoSums {
  T first, second;
};
template <class T, class F> inline TwoSums<T> two_sums(Index n, F f) {
  constexpr Index L = kLanes<T>;
  Vec<T> first[4] = {}, second[4] = {};
  const auto add = [&](Index k, Two<T> v) { first[k] += v.first, second[k] += v.second; };
  Index j = 0;
  for (; j + 4 * L <= n; j += 4 * L)
    for (Index k = 0; k < 4; ++k) add(k, f(j + k * L, Whole<T>{}));
  for (; j + L <= n; j += L) add(0, f(j, Whole<T>{}));
  if (j < n) {
    const Two<T> v = f(j, Part<T>{n - j});
    const Mask<T> inside = first_lanes<T>(n - j);
    add(1, {select(inside, v.first, Vec<T>{}), select(inside, v.second, Vec<T>{})});
  }
  return {horizontal_sum<T>((first[0] + first[1]) + (first[2] + first[3])),
          horizontal_sum<T>((second[0] + second[1]) + (second[2] + second[3]))};
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
