// Products and sums that are rounded as the source says. The compiler joins none by itself: in a * b + c * d it may
// fuse either product, and it chooses by what is around it.
#pragma once

#if defined(__ARM_FEATURE_FMA)
#include <arm_neon.h>
#endif

#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {

// a * b + c, rounded once where the CPU can: the same bits at every level that has the instruction. A sign before an
// argument costs nothing.
#if defined(__AVX512F__)
inline Vec<float> fused(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Vec<double> fused(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__FMA__)
inline Vec<float> fused(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
inline Vec<double> fused(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(__ARM_FEATURE_FMA)
inline Vec<float> fused(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
inline Vec<double> fused(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
inline Vec<float> fused(Vec<float> a, Vec<float> b, Vec<float> c) { return a * b + c; }
inline Vec<double> fused(Vec<double> a, Vec<double> b, Vec<double> c) { return a * b + c; }
#endif

// The same of one number, for loops that the compiler makes vectors of.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool kFused = true;
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
constexpr bool kFused = false;
inline float fused(float a, float b, float c) { return a * b + c; }
inline double fused(double a, double b, double c) { return a * b + c; }
#endif

}  // namespace qkv::kernels::QKV_ISA
