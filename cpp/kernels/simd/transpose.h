// Exchanges rows and columns of as many vectors as a vector has lanes.
#pragma once

#include "kernels/simd/simd.h"

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

// v[i] = numbers j of from[0], from[1], ..., that is lane i of each. With AVX-512 and AVX2 half or a third of the
// exchanges are made by loads of quarters or halves, which do not need the port that shuffles.
template <class T> inline void load_transposed(Vec<T> (&v)[kLanes<T>], const T* const* from, Index j) {
#pragma GCC unroll 16
  for (Index i = 0; i < kLanes<T>; ++i) v[i] = load(from[i] + j);
  transpose<T>(v);
}
#if defined(__AVX512F__)
template <> inline void load_transposed<float>(Vec<float> (&v)[16], const float* const* from, Index j) {
  constexpr __mmask16 all = 0xffff;  // GCC 12 warns of its own header in the forms without a mask
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    __m512 x[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const float* const* row = from + r;
      x[r] = _mm512_castps128_ps512(_mm_loadu_ps(row[0] + j + 4 * q));
      x[r] = _mm512_maskz_insertf32x4(all, x[r], _mm_loadu_ps(row[4] + j + 4 * q), 1);
      x[r] = _mm512_maskz_insertf32x4(all, x[r], _mm_loadu_ps(row[8] + j + 4 * q), 2);
      x[r] = _mm512_maskz_insertf32x4(all, x[r], _mm_loadu_ps(row[12] + j + 4 * q), 3);
    }
    const __m512d a = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, x[0], x[1]));
    const __m512d b = _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all, x[2], x[3]));
    const __m512d c = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, x[0], x[1]));
    const __m512d d = _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all, x[2], x[3]));
    v[4 * q] = (Vec<float>)_mm512_maskz_unpacklo_pd(0xff, a, b);
    v[4 * q + 1] = (Vec<float>)_mm512_maskz_unpackhi_pd(0xff, a, b);
    v[4 * q + 2] = (Vec<float>)_mm512_maskz_unpacklo_pd(0xff, c, d);
    v[4 * q + 3] = (Vec<float>)_mm512_maskz_unpackhi_pd(0xff, c, d);
  }
}
#elif defined(__AVX2__)
template <> inline void load_transposed<float>(Vec<float> (&v)[8], const float* const* from, Index j) {
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    __m256 x[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
      x[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from[r] + j + 4 * h)),
                                  _mm_loadu_ps(from[r + 4] + j + 4 * h), 1);
    const __m256 a = _mm256_unpacklo_ps(x[0], x[1]), b = _mm256_unpackhi_ps(x[0], x[1]);
    const __m256 c = _mm256_unpacklo_ps(x[2], x[3]), d = _mm256_unpackhi_ps(x[2], x[3]);
    v[4 * h] = (Vec<float>)_mm256_shuffle_ps(a, c, 0x44);
    v[4 * h + 1] = (Vec<float>)_mm256_shuffle_ps(a, c, 0xee);
    v[4 * h + 2] = (Vec<float>)_mm256_shuffle_ps(b, d, 0x44);
    v[4 * h + 3] = (Vec<float>)_mm256_shuffle_ps(b, d, 0xee);
  }
}
#endif

// Lane i of the result is the sum of the lanes of v[i], whose content is lost. One order, for all instruction sets.
template <class T> inline Vec<T> sum_each(Vec<T> (&v)[kLanes<T>]) {
  transpose<T>(v);
#pragma GCC unroll 16
  for (Index width = kLanes<T> / 2; width > 0; width /= 2)
#pragma GCC unroll 16
    for (Index i = 0; i < width; ++i) v[i] += v[i + width];
  return v[0];
}

}  // namespace qkv::kernels::QKV_ISA
