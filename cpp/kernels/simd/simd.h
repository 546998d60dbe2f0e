// Vectors of the instruction-set level that a kernel file is compiled for.
//
//     for (; i + kLanes<T> <= n; i += kLanes<T>) store(y + i, load(a + i) * splat<T>(2) + load(b + i));
//     if (i < n) store_part(y + i, load_part(a + i, n - i) * splat<T>(2) + load_part(b + i, n - i), n - i);
//
// Vec<T> is a vector of the compiler's own (16, 32 or 64 bytes), so + - * / & | and comparisons work as written;
// fused.h has products that are fused with a sum. A comparison gives a Mask<T>: integers of the lanes' width, all bits
// set where true. Only kernels include this.
#pragma once

#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>  // a tenth of the time
#endif

#include "core/index.h"

namespace qkv::kernels::QKV_ISA {

#if defined(__AVX512F__)
constexpr Index kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr Index kVectorBytes = 32;
#else
constexpr Index kVectorBytes = 16;
#endif

// Vector registers, of which a tile's sums may take most.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

template <class T> struct VectorTypes;
template <> struct VectorTypes<float> {
  typedef float Values __attribute__((vector_size(kVectorBytes)));
  typedef int32_t Bits __attribute__((vector_size(kVectorBytes)));
  using Integer = int32_t;
};
template <> struct VectorTypes<double> {
  typedef double Values __attribute__((vector_size(kVectorBytes)));
  typedef int64_t Bits __attribute__((vector_size(kVectorBytes)));
  using Integer = int64_t;
};

template <class T> using Vec = typename VectorTypes<T>::Values;
template <class T> using Mask = typename VectorTypes<T>::Bits;
template <class T> constexpr Index kLanes = kVectorBytes / static_cast<Index>(sizeof(T));

// Memory -------------------------------------------------------------------------------------------------------------

template <class T> inline Vec<T> splat(T x) { return x - Vec<T>{}; }  // x - 0 keeps -0 and NaN
template <class T> inline Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vec<float> v) { __builtin_memcpy(p, &v, sizeof v); }
inline void store(double* p, Vec<double> v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n < kLanes<T> numbers of p, then zeros; nothing after them is read or written.
#if defined(__AVX512F__)
inline Vec<float> load_part(const float* p, Index n) { return (Vec<float>)_mm512_maskz_loadu_ps((1u << n) - 1, p); }
inline Vec<double> load_part(const double* p, Index n) { return (Vec<double>)_mm512_maskz_loadu_pd((1u << n) - 1, p); }
inline void store_part(float* p, Vec<float> v, Index n) { _mm512_mask_storeu_ps(p, (1u << n) - 1, (__m512)v); }
inline void store_part(double* p, Vec<double> v, Index n) { _mm512_mask_storeu_pd(p, (1u << n) - 1, (__m512d)v); }
#elif defined(__AVX2__)
// The first n of eight words are all ones: a window that slides over eight words of each kind.
alignas(64) constexpr int32_t kFirstWords[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
inline __m256i first_words(Index n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirstWords + 8 - n));
}
inline Vec<float> load_part(const float* p, Index n) { return (Vec<float>)_mm256_maskload_ps(p, first_words(n)); }
inline Vec<double> load_part(const double* p, Index n) {
  return (Vec<double>)_mm256_maskload_pd(p, first_words(2 * n));
}
// By halves: a masked store takes 4.8 ns on a Zen 4 (microcode), this 3.0, lane by lane 5.7.
inline void store_part(float* p, Vec<float> v, Index n) {
  __m128 rest = _mm256_castps256_ps128((__m256)v);
  if ((n & 4) != 0) {
    _mm_storeu_ps(p, rest);
    rest = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if ((n & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
    rest = _mm_movehl_ps(rest, rest);
    p += 2;
  }
  if ((n & 1) != 0) _mm_store_ss(p, rest);
}
inline void store_part(double* p, Vec<double> v, Index n) {
  __m128d rest = _mm256_castpd256_pd128((__m256d)v);
  if ((n & 2) != 0) {
    _mm_storeu_pd(p, rest);
    rest = _mm256_extractf128_pd((__m256d)v, 1);
    p += 2;
  }
  if ((n & 1) != 0) _mm_store_sd(p, rest);
}
#else
template <class T> inline Vec<T> load_part(const T* p, Index n) {
  Vec<T> v = {};
  for (Index i = 0; i < kLanes<T>; ++i)
    if (i < n) v[i] = p[i];
  return v;
}
template <class T> inline void store_part_lanes(T* p, Vec<T> v, Index n) {
  for (Index i = 0; i < kLanes<T>; ++i)
    if (i < n) p[i] = v[i];
}
inline void store_part(float* p, Vec<float> v, Index n) { store_part_lanes<float>(p, v, n); }
inline void store_part(double* p, Vec<double> v, Index n) { store_part_lanes<double>(p, v, n); }
#endif

// Lane by lane -------------------------------------------------------------------------------------------------------

inline Vec<float> select(Mask<float> m, Vec<float> a, Vec<float> b) { return m ? a : b; }
inline Vec<double> select(Mask<double> m, Vec<double> a, Vec<double> b) { return m ? a : b; }

// a > b ? a : b and a < b ? a : b, so b where a lane is not a number. (The AVX-512 forms with a full mask are the
// plain instructions; GCC 12 warns of its own header in the others.)
#if defined(__AVX512F__)
inline Vec<float> maximum(Vec<float> a, Vec<float> b) {
  return (Vec<float>)_mm512_maskz_max_ps(0xffff, (__m512)a, (__m512)b);
}
inline Vec<double> maximum(Vec<double> a, Vec<double> b) {
  return (Vec<double>)_mm512_maskz_max_pd(0xff, (__m512d)a, (__m512d)b);
}
inline Vec<float> minimum(Vec<float> a, Vec<float> b) {
  return (Vec<float>)_mm512_maskz_min_ps(0xffff, (__m512)a, (__m512)b);
}
inline Vec<double> minimum(Vec<double> a, Vec<double> b) {
  return (Vec<double>)_mm512_maskz_min_pd(0xff, (__m512d)a, (__m512d)b);
}
#elif defined(__AVX2__)
inline Vec<float> maximum(Vec<float> a, Vec<float> b) { return (Vec<float>)_mm256_max_ps((__m256)a, (__m256)b); }
inline Vec<double> maximum(Vec<double> a, Vec<double> b) { return (Vec<double>)_mm256_max_pd((__m256d)a, (__m256d)b); }
inline Vec<float> minimum(Vec<float> a, Vec<float> b) { return (Vec<float>)_mm256_min_ps((__m256)a, (__m256)b); }
inline Vec<double> minimum(Vec<double> a, Vec<double> b) { return (Vec<double>)_mm256_min_pd((__m256d)a, (__m256d)b); }
#elif defined(__SSE2__)
inline Vec<float> maximum(Vec<float> a, Vec<float> b) { return (Vec<float>)_mm_max_ps((__m128)a, (__m128)b); }
inline Vec<double> maximum(Vec<double> a, Vec<double> b) { return (Vec<double>)_mm_max_pd((__m128d)a, (__m128d)b); }
inline Vec<float> minimum(Vec<float> a, Vec<float> b) { return (Vec<float>)_mm_min_ps((__m128)a, (__m128)b); }
inline Vec<double> minimum(Vec<double> a, Vec<double> b) { return (Vec<double>)_mm_min_pd((__m128d)a, (__m128d)b); }
#else
inline Vec<float> maximum(Vec<float> a, Vec<float> b) { return a > b ? a : b; }
inline Vec<double> maximum(Vec<double> a, Vec<double> b) { return a > b ? a : b; }
inline Vec<float> minimum(Vec<float> a, Vec<float> b) { return a < b ? a : b; }
inline Vec<double> minimum(Vec<double> a, Vec<double> b) { return a < b ? a : b; }
#endif

inline Mask<float> bits(Vec<float> v) { return (Mask<float>)v; }
inline Mask<double> bits(Vec<double> v) { return (Mask<double>)v; }
inline Vec<float> from_bits(Mask<float> v) { return (Vec<float>)v; }
inline Vec<double> from_bits(Mask<double> v) { return (Vec<double>)v; }

inline Vec<float> absolute(Vec<float> v) { return from_bits(bits(v) & INT32_MAX); }
inline Vec<double> absolute(Vec<double> v) { return from_bits(bits(v) & INT64_MAX); }

#if defined(__AVX512F__)
inline Vec<float> sqrt_of(Vec<float> x) { return (Vec<float>)_mm512_maskz_sqrt_ps(0xffff, (__m512)x); }
inline Vec<double> sqrt_of(Vec<double> x) { return (Vec<double>)_mm512_maskz_sqrt_pd(0xff, (__m512d)x); }
#elif defined(__AVX2__)
inline Vec<float> sqrt_of(Vec<float> x) { return (Vec<float>)_mm256_sqrt_ps((__m256)x); }
inline Vec<double> sqrt_of(Vec<double> x) { return (Vec<double>)_mm256_sqrt_pd((__m256d)x); }
#else
template <class V> inline V sqrt_of(V x) {
  for (unsigned i = 0; i < sizeof x / sizeof x[0]; ++i) x[i] = static_cast<decltype(+x[0])>(__builtin_sqrt(x[i]));
  return x;
}
#endif

// |magnitude| with the sign of `sign`.
inline Vec<float> copy_sign(Vec<float> magnitude, Vec<float> sign) {
  return from_bits((bits(magnitude) & INT32_MAX) | (bits(sign) & INT32_MIN));
}
inline Vec<double> copy_sign(Vec<double> magnitude, Vec<double> sign) {
  return from_bits((bits(magnitude) & INT64_MAX) | (bits(sign) & INT64_MIN));
}

// Floats as doubles and back, in two vectors.
struct Doubles {
  Vec<double> first, second;
};
#if defined(__AVX512F__)
inline Doubles widened(Vec<float> v) {
  return {__builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), Vec<double>),
          __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), Vec<double>)};
}
#elif defined(__AVX2__)
inline Doubles widened(Vec<float> v) {
  return {__builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), Vec<double>),
          __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), Vec<double>)};
}
#else
inline Doubles widened(Vec<float> v) {
  return {__builtin_convertvector(__builtin_shufflevector(v, v, 0, 1), Vec<double>),
          __builtin_convertvector(__builtin_shufflevector(v, v, 2, 3), Vec<double>)};
}
#endif
inline Vec<float> narrowed(Vec<double> first, Vec<double> second) {
  typedef float Half __attribute__((vector_size(kVectorBytes / 2)));
  const Half a = __builtin_convertvector(first, Half), b = __builtin_convertvector(second, Half);
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(a, b, 0, 1, 2, 3);
#endif
}

// All lanes to one number --------------------------------------------------------------------------------------------
// Halves are folded onto each other: one order, for all instruction sets.

template <class T> inline T horizontal_sum(Vec<T> v) {
  T lane[kLanes<T>];
  __builtin_memcpy(lane, &v, sizeof v);
  for (Index width = kLanes<T> / 2; width > 0; width /= 2)
    for (Index i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}
template <class T> inline T horizontal_max(Vec<T> v) {
  T lane[kLanes<T>];
  __builtin_memcpy(lane, &v, sizeof v);
  for (Index width = kLanes<T> / 2; width > 0; width /= 2)
    for (Index i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  return lane[0];
}

// Sums are made in as many parts as 64 bytes hold numbers, at every level: one part in each lane of kParts vectors.
// `folded` adds the vectors in the order in which horizontal_sum then adds the lanes.
template <class T> constexpr Index kLineNumbers = 64 / static_cast<Index>(sizeof(T));
constexpr int kParts = static_cast<int>(64 / kVectorBytes);
template <class T> inline Vec<T> folded(Vec<T> (&v)[kParts]) {
  if constexpr (kParts == 1) return v[0];
  else if constexpr (kParts == 2) return v[0] + v[1];
  else return (v[0] + v[2]) + (v[1] + v[3]);
}

// Whether any lane of a mask is set. A template because compilers differ in the type of a comparison's result.
template <class M> inline bool any(M mask) {
  static_assert(sizeof mask == kVectorBytes);
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  int64_t lane[kVectorBytes / 8], all = 0;
  __builtin_memcpy(lane, &mask, sizeof mask);
  for (int64_t bits_of_lane : lane) all |= bits_of_lane;
  return all != 0;
#endif
}

// Lane by lane -------------------------------------------------------------------------------------------------------

// y, and f(x ...) of a lane's numbers in the lanes that a mask sets. Out of the way, for what is rare and slow.
template <class T, class F, class... X>
__attribute__((noinline)) Vec<T> by_lanes(F f, Mask<T> where, Vec<T> y, X... x) {
  for (Index i = 0; i < kLanes<T>; ++i)
    if (where[i] != 0) y[i] = f(x[i]...);
  return y;
}

}  // namespace qkv::kernels::QKV_ISA
