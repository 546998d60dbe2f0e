// Loops over vectors that sum something up, with the incomplete vector at the end.
#pragma once

#include "kernels/simd.h"

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
// Lanes behind the end do not count. Two running sums, because one addition takes longer than the next needs to start.
template <class T, class F> inline T sum_vectors(Index n, F f) {
  Vec<T> even = {}, odd = {};
  Index j = 0;
  for (; j + 2 * kLanes<T> <= n; j += 2 * kLanes<T>) {
    even += f(j, Whole<T>{});
    odd += f(j + kLanes<T>, Whole<T>{});
  }
  if (j + kLanes<T> <= n) {
    even += f(j, Whole<T>{});
    j += kLanes<T>;
  }
  if (j < n) odd += select(first_lanes<T>(n - j), f(j, Part<T>{n - j}), Vec<T>{});
  return horizontal_sum<T>(even + odd);
}

// f(j, at) for n numbers, a vector at a time.
template <class T, class F> inline void each_vector(Index n, F f) {
  Index j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) f(j, Whole<T>{});
  if (j < n) f(j, Part<T>{n - j});
}

}  // namespace qkv::kernels::QKV_ISA
