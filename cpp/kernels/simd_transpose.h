// Exchanges rows and columns of as many vectors as a vector has lanes.
#pragma once

#include "kernels/simd.h"

namespace qkv::kernels::QKV_ISA {

namespace shuffle {

template <int... I> struct Lanes {};
template <Index W> struct AllLanes;
template <> struct AllLanes<2> {
  using Type = Lanes<0, 1>;
};
template <> struct AllLanes<4> {
  using Type = Lanes<0, 1, 2, 3>;
};
template <> struct AllLanes<8> {
  using Type = Lanes<0, 1, 2, 3, 4, 5, 6, 7>;
};
template <> struct AllLanes<16> {
  using Type = Lanes<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>;
};

template <int H, class V, int... I> inline void exchange(V& a, V& b, Lanes<I...>) {
  constexpr int w = sizeof...(I);
  const V first = __builtin_shufflevector(a, b, ((I & H) != 0 ? w + I - H : I)...);
  b = __builtin_shufflevector(a, b, ((I & H) != 0 ? w + I : I + H)...);
  a = first;
}

template <class T, int H> inline void exchange_blocks(Vec<T> (&v)[kLanes<T>]) {
  if constexpr (H < kLanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i)
      if ((i & H) == 0) exchange<H>(v[i], v[i + H], typename AllLanes<kLanes<T>>::Type{});
    exchange_blocks<T, H * 2>(v);
  }
}

}  // namespace shuffle

// Lane j of v[i] and lane i of v[j] change places. log2(lanes) steps; a step exchanges blocks across the diagonal.
template <class T> inline void transpose(Vec<T> (&v)[kLanes<T>]) { shuffle::exchange_blocks<T, 1>(v); }

// Lane i of the result is the sum of the lanes of v[i], whose content is lost. One order, whatever the instructions.
template <class T> inline Vec<T> sum_each(Vec<T> (&v)[kLanes<T>]) {
  transpose<T>(v);
#pragma GCC unroll 16
  for (Index width = kLanes<T> / 2; width > 0; width /= 2)
#pragma GCC unroll 16
    for (Index i = 0; i < width; ++i) v[i] += v[i + width];
  return v[0];
}

}  // namespace qkv::kernels::QKV_ISA
