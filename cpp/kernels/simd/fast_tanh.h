// tanh in half of tanh_of's instructions, for scores.
#pragma once

#include "kernels/simd/math.h"

namespace qkv::kernels::QKV_ISA {

// tanh(x) = E / (E + 2) with E = exp(2 x) - 1 = 2^n (2^f - 1) + (2^n - 1), which loses no digits near 0. At most 3.3
// ULP off. (2^f - 1) / f on |f| <= 1/2 to 1e-8.
inline Vec<float> fast_tanh_of(Vec<float> x) {
  constexpr float power[] = {0.6931472f, 0.24022649f, 0.055503573f, 0.009618238f, 0.0013390735f, 0.00015403512f};
  constexpr float round = 12582912.0f + 127.0f;  // 1.5 * 2^23 and the exponent's bias
  const Vec<float> most = splat(30.0f), one = splat(1.0f);
  const Vec<float> t = minimum(most, maximum(-most, x * splat(2.88539008f)));
  const Vec<float> shifted = t + splat(round), f = t - (shifted - splat(round));
  const Vec<float> whole = from_bits(bits(shifted) << 23);
  const Vec<float> e = fused(whole * f, math::polynomial<float>(f, power), whole - one);
  return e / (e + splat(2.0f));
}
inline Vec<double> fast_tanh_of(Vec<double> x) { return tanh_of<double>(x); }

}  // namespace qkv::kernels::QKV_ISA
