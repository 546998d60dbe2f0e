// The exponential of a softmax: of a distance from the largest score, which is at most 0.
#pragma once

#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {

namespace weight {
template <class T> struct Constants;
template <> struct Constants<float> {
  static constexpr float kLog2e = 1.44269504f;
  // (2^f - 1) / f on |f| < 1/2; relative error of 2^f 9e-8.
  static constexpr float kPower[5] = {0.693146976f, 0.240222405f, 0.0555073507f, 0.00967161882f, 0.00132645756f};
  static constexpr float kLowest = -69.3f;            // of d
  static constexpr float kRound = 12582912 + 127.0f;  // 1.5 * 2^23 and the exponent's bias
  static constexpr int32_t kMantissaBits = 23;
};
template <> struct Constants<double> {
  static constexpr double kLog2e = 1.4426950408889634;
  // 3e-18.
  static constexpr double kPower[11] = {0.69314718055994529,    0.2402265069591013,     0.05550410866482007,
                                        0.0096181291075938466,  0.0013333558146777357,  0.00015403530457492161,
                                        1.5252733491266403e-05, 1.3215435077382097e-06, 1.0178200030564254e-07,
                                        7.0738208112394582e-09, 4.4347484067366894e-10};
  static constexpr double kLowest = -665.4;
  static constexpr double kRound = 6755399441055744.0 + 1023;
  static constexpr int64_t kMantissaBits = 52;
};

#if defined(__AVX512F__)
// x * 2^n; 0 for d < kLowest.
inline Vec<float> scale(Vec<float> x, Vec<float> n, Vec<float> d) {
  const __mmask16 keep = _mm512_cmp_ps_mask((__m512)d, _mm512_set1_ps(Constants<float>::kLowest), _CMP_NLT_UQ);
  return (Vec<float>)_mm512_maskz_scalef_ps(keep, (__m512)x, (__m512)n);
}
inline Vec<double> scale(Vec<double> x, Vec<double> n, Vec<double> d) {
  const __mmask8 keep = _mm512_cmp_pd_mask((__m512d)d, _mm512_set1_pd(Constants<double>::kLowest), _CMP_NLT_UQ);
  return (Vec<double>)_mm512_maskz_scalef_pd(keep, (__m512d)x, (__m512d)n);
}
#endif
}  // namespace weight

// exp(d) for a score's distance d <= 0 from the row's maximum: exactly 0 below about -69 (double: -665) and for -inf;
// NaN stays. Smaller weights could not change a sum, but divided by the sum or times a gradient they become denormal
// numbers, which cost 100 cycles each: with distances (ALiBi) that was a third of the backward pass. 12 instructions
// for float. N vectors stage by stage, because each instruction waits four cycles for the one before.
template <class T, int N> inline __attribute__((always_inline)) void weights_of(Vec<T> (&d)[N]) {
  using C = weight::Constants<T>;
  constexpr int terms = sizeof(C::kPower) / sizeof(T);
  // n = round(d log2 e), made by one fused multiply-add and not from a rounded product: then f and 2^f are the same
  // bits at every level.
  Vec<T> f[N], power[N], rounded[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) rounded[i] = fused(d[i], splat<T>(C::kLog2e), splat<T>(C::kRound));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) f[i] = fused(d[i], splat<T>(C::kLog2e), -(rounded[i] - splat<T>(C::kRound)));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) power[i] = fused(f[i], splat<T>(C::kPower[terms - 1]), splat<T>(C::kPower[terms - 2]));
#pragma GCC unroll 16
  for (int term = terms - 3; term >= 0; --term)
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) power[i] = fused(power[i], f[i], splat<T>(C::kPower[term]));
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) power[i] = fused(power[i], f[i], splat<T>(1));
#if defined(__AVX512F__)
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) d[i] = weight::scale(power[i], rounded[i] - splat<T>(C::kRound), d[i]);
#else
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    // What is left of kRound is shifted out.
    const Vec<T> result = power[i] * from_bits(bits(rounded[i]) << C::kMantissaBits);
    d[i] = select(d[i] < splat<T>(C::kLowest), Vec<T>{}, result);
  }
#endif
}

template <class T> inline Vec<T> weight_of(Vec<T> d) {
  Vec<T> one[1] = {d};
  weights_of<T, 1>(one);
  return one[0];
}

// f(address, exp(score - base), i) for n vectors of scores, `stride` apart; i is the number of the vector modulo 4.
template <class T, class F>
inline __attribute__((always_inline)) void each_weight(T* scores, Index stride, Index n, Vec<T> base, F f) {
  for (Index j = n >> 2; j > 0; --j, scores += 4 * stride) {
    Vec<T> w[4];
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) w[i] = load(scores + i * stride) - base;
    weights_of<T, 4>(w);
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) f(scores + i * stride, w[i], i);
  }
  for (Index i = 0; i < (n & 3); ++i, scores += stride) f(scores, weight_of<T>(load(scores) - base), i);
}

}  // namespace qkv::kernels::QKV_ISA
