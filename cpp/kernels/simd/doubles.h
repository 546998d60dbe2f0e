// Numbers of either type that are computed in double.
#pragma once

#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {

// As many numbers of T as a vector holds doubles, which they are computed in: the `count` first of p, then zeros.
constexpr Index kWide = kLanes<double>;
template <class T> struct Narrow {
  typedef T Values __attribute__((vector_size(kWide * sizeof(T))));
};

template <class T> inline Vec<double> wide(const T* p, Index count) {
  typename Narrow<T>::Values v = {};
  if (count == kWide) __builtin_memcpy(&v, p, sizeof v);
  else
    for (Index i = 0; i < count; ++i) v[i] = p[i];
  return __builtin_convertvector(v, Vec<double>);
}

template <class T> inline void put(T* p, Vec<double> wide_values, Index count) {
  const auto v = __builtin_convertvector(wide_values, typename Narrow<T>::Values);
  if (count == kWide) __builtin_memcpy(p, &v, sizeof v);
  else
    for (Index i = 0; i < count; ++i) p[i] = v[i];
}

// The sum of f(j, count) over n numbers, kWide at a time; f gives zeros in lanes that do not count.
template <class F> inline double sum_wide(Index n, F f) {
  constexpr Index line = kLineNumbers<double>;
  Vec<double> even[kParts] = {}, odd[kParts] = {};
  Index j = 0;
  for (; j + 2 * line <= n; j += 2 * line)
    for (int p = 0; p < kParts; ++p) {
      even[p] += f(j + p * kWide, kWide);
      odd[p] += f(j + line + p * kWide, kWide);
    }
  if (j + line <= n) {
    for (int p = 0; p < kParts; ++p) even[p] += f(j + p * kWide, kWide);
    j += line;
  }
  for (int p = 0; p < kParts && j < n; ++p, j += kWide) odd[p] += f(j, n - j < kWide ? n - j : kWide);
  for (int p = 0; p < kParts; ++p) even[p] += odd[p];
  return horizontal_sum<double>(folded<double>(even));
}

}  // namespace qkv::kernels::QKV_ISA
