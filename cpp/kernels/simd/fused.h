// Products and sums of which the source says how they are rounded.
#pragma once

#if defined(__ARM_FEATURE_FMA)
#include <arm_neon.h>
#endif

#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {

// a * b + c, rounded once where the CPU can. Of a * b + c * d the compiler may fuse either product and chooses by what
// stands around it, so there this says which: the same bits come out at every level.
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

}  // namespace qkv::kernels::QKV_ISA
