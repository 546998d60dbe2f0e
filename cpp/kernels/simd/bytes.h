// Bytes that say yes or no: exchanging their rows and columns, and choosing lanes of numbers by them.
#pragma once

#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {

namespace bytes {

template <int W> struct VectorOf {
  typedef uint8_t Type __attribute__((vector_size(W)));
};
template <int W> using Vector = typename VectorOf<W>::Type;

template <int... I> struct Numbers {};
template <int N, int... I> struct Upto : Upto<N - 1, N - 1, I...> {};
template <int... I> struct Upto<0, I...> {
  using Type = Numbers<I...>;
};

// Lower or upper halves of each 16 bytes of a and b, byte by byte in turn.
template <int W, int Upper, int... I> inline Vector<W> interleave(Vector<W> a, Vector<W> b, Numbers<I...>) {
  return __builtin_shufflevector(a, b, (I / 16 * 16 + I % 16 / 2 + 8 * Upper + I % 2 * W)...);
}

// Four rounds of dealing: byte r of x[i] of each 16 bytes becomes byte i of x[r].
template <int W> inline void deal(Vector<W> (&x)[16]) {
  using All = typename Upto<W>::Type;
  Vector<W> y[16];
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      y[2 * i] = interleave<W, 0>(x[i], x[i + 8], All{});
      y[2 * i + 1] = interleave<W, 1>(x[i], x[i + 8], All{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) x[i] = y[i];
  }
}

// W columns of 16 rows.
template <int W> inline void columns(uint8_t* to, Index width, const uint8_t* const* from, Index j) {
  Vector<W> x[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) __builtin_memcpy(&x[i], from[i] + j, W);
  deal<W>(x);
  for (int part = 0; part < W / 16; ++part)
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r)
      __builtin_memcpy(to + (j + part * 16 + r) * width, reinterpret_cast<const char*>(&x[r]) + part * 16, 16);
}

}  // namespace bytes

// a in those lanes whose byte is not 0, else b. (Compilers build the mask byte by byte.)
#if defined(__AVX512F__)
inline Vec<float> select_by(const uint8_t* p, Vec<float> a, Vec<float> b) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (Vec<float>)_mm512_mask_blend_ps(_mm_test_epi8_mask(x, x), (__m512)b, (__m512)a);
}
inline Vec<double> select_by(const uint8_t* p, Vec<double> a, Vec<double> b) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return (Vec<double>)_mm512_mask_blend_pd(static_cast<__mmask8>(_mm_test_epi8_mask(x, x)), (__m512d)b, (__m512d)a);
}
#else
template <class T> inline Vec<T> select_by_lanes(const uint8_t* p, Vec<T> a, Vec<T> b) {
#if defined(__AVX2__)
  const __m128i x = sizeof(T) == 4 ? _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)) : _mm_loadu_si32(p);
  const __m256i wide = sizeof(T) == 4 ? _mm256_cvtepu8_epi32(x) : _mm256_cvtepu8_epi64(x);
  return select((Mask<T>)wide != Mask<T>{}, a, b);
#else
  Mask<T> mask;
  for (Index i = 0; i < kLanes<T>; ++i) mask[i] = p[i];
  return select(mask != Mask<T>{}, a, b);
#endif
}
inline Vec<float> select_by(const uint8_t* p, Vec<float> a, Vec<float> b) { return select_by_lanes<float>(p, a, b); }
inline Vec<double> select_by(const uint8_t* p, Vec<double> a, Vec<double> b) {
  return select_by_lanes<double>(p, a, b);
}
#endif

// to[j * width + i] = from[i][j] for i < rows and first <= j < last.
inline void transpose_bytes(uint8_t* to, Index width, const uint8_t* const* from, Index rows, Index first, Index last) {
  constexpr Index w = kVectorBytes;
  Index i = 0;
  if (last - first >= 16) {
    for (; i + 16 <= rows; i += 16) {  // the last columns of a row overlap the ones before
      Index j = first;
      for (; j + w <= last; j += w) bytes::columns<w>(to + i, width, from + i, j);
      for (; j < last; j += 16) bytes::columns<16>(to + i, width, from + i, j + 16 <= last ? j : last - 16);
    }
  }
  for (; i < rows; ++i)
    for (Index j = first; j < last; ++j) to[j * width + i] = from[i][j];
}

}  // namespace qkv::kernels::QKV_ISA
