// Powers p^q of a Vec<float> or Vec<double>.
//
// p^q = exp(q log |p|), with the sign of p for odd q. Of float in double, of which the result is rounded once: at most
// 0.51 ULP. Of double with a logarithm of two parts (some 68 bits), because an error of log p grows by q log p, which
// may be 700: at most 1.0 ULP was measured. Lanes with zeros, infinities, NaN, denormal numbers or results outside the
// normal range are computed by <math.h>, one by one.
#pragma once

#include <math.h>

#include "kernels/simd/math.h"

namespace qkv::kernels::QKV_ISA {
namespace power {

using Wide = Vec<double>;

// A number as the sum of two, of which the second is below the last place of the first.
struct Pair {
  Wide high, low;
};

// a * b - c, rounded once.
#if defined(__AVX512F__)
constexpr bool kFused = true;
inline Wide multiply_subtract(Wide a, Wide b, Wide c) {
  return (Wide)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__FMA__)
constexpr bool kFused = true;
inline Wide multiply_subtract(Wide a, Wide b, Wide c) {
  return (Wide)_mm256_fmsub_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(__ARM_FEATURE_FMA)
constexpr bool kFused = true;
inline Wide multiply_subtract(Wide a, Wide b, Wide c) {
  return Wide{__builtin_fma(a[0], b[0], -c[0]), __builtin_fma(a[1], b[1], -c[1])};
}
#else
constexpr bool kFused = false;  // each lane by <math.h> takes no longer than exact products in halves
inline Wide multiply_subtract(Wide a, Wide b, Wide c) { return a * b - c; }
#endif

inline Pair product(Wide a, Wide b) {
  const Wide high = a * b;
  return {high, multiply_subtract(a, b, high)};
}
// a + b for |a| >= |b|.
inline Pair ordered_sum(Wide a, Wide b) {
  const Wide high = a + b;
  return {high, (a - high) + b};
}

// p = 2^e m with m from sqrt(1/2) to sqrt(2), for normal positive p.
struct Parts {
  Wide e, m;
};
inline Parts exponent_and_mantissa(Wide p) {
  using C = math::Constants<double>;
  const Mask<double> root = bits(splat(0.70710678118654752440)), shifted = bits(p) - root;
  const Mask<double> exponent = shifted >> C::kMantissaBits;
  const Wide m = from_bits((shifted & ((int64_t{1} << C::kMantissaBits) - 1)) + root);
  return {from_bits(exponent + bits(splat(C::kRound))) - splat(C::kRound), m};
}

// log p to about 48 bits.
inline Wide log_in_short(Wide p) {
  using C = math::Constants<double>;
  const auto [e, m] = exponent_and_mantissa(p);
  const Wide f = m - splat(1.0), s = f / (f + splat(2.0)), z = s * s;
  return e * splat(C::kLn2High) + (s + s + s * z * math::polynomial<double>(z, C::kLog) + e * splat(C::kLn2Low));
}

// log p = e ln 2 + 2 s + 2/3 s^3 + s^5 (2/5 + ...), s = (m - 1) / (m + 1): all but the last in two parts.
inline Pair log_in_full(Wide p) {
  using C = math::Constants<double>;
  // log((1 + s) / (1 - s)) / s = 2 + 2/3 s^2 + s^4 (2/5 + 2/7 s^2 + ...)
  static constexpr double kTail[8] = {0.4,
                                      0.28571428571429364,
                                      0.22222222221656232,
                                      0.18181818335314404,
                                      0.15384594970895457,
                                      0.13334804238225345,
                                      0.11706248540922386,
                                      0.11723051028097753};
  static constexpr double kThird2 = 0x1.5555555555555p-1, kThird2Low = 0x1.5555555555555p-55;  // 2/3
  const auto [e, m] = exponent_and_mantissa(p);
  const Wide one = splat(1.0), f = m - one, t = m + one, t_low = m - (t - one);
  const Wide inverse = one / t, s = f * inverse;
  const Wide s_low = -(multiply_subtract(s, t, f) + s * t_low) * inverse;
  const Pair z = product(s, s);
  const Wide z_low = z.low + (s + s) * s_low;
  // 2/3 z, then times s.
  Pair cubic = product(z.high, splat(kThird2));
  cubic.low += z.high * splat(kThird2Low) + z_low * splat(kThird2);
  const Wide tail = z.high * z.high * math::polynomial<double>(z.high, kTail);
  const Pair series = ordered_sum(cubic.high, cubic.low + tail);  // 2/3 s^2 + ...
  Pair rest = product(s, series.high);
  rest.low += s * series.low + s_low * series.high;
  // e ln 2 + 2 s + rest, the largest first; e * kLn2High is exact.
  const Wide twice = s + s, whole = e * splat(C::kLn2High);
  const Wide total = whole + twice, back = total - whole;
  const Wide lost = (whole - (total - back)) + (twice - back);
  const Pair sum = ordered_sum(total, rest.high);
  const Wide low = (sum.low + lost) + (rest.low + (s_low + s_low) + e * splat(C::kLn2Low));
  return ordered_sum(sum.high, low);
}

// exp(x.high + x.low) for results in the normal range.
inline Wide exp_of_pair(Pair x) {
  using C = math::Constants<double>;
  const Wide n = (x.high * splat(C::kLog2e) + splat(C::kRound)) - splat(C::kRound);
  const Wide a = x.high - n * splat(C::kLn2High), b = n * splat(C::kLn2Low) - x.low;
  const Wide r = a - b, r_low = (a - r) - b, one = splat(1.0);
  const Wide rest = r * r * math::polynomial<double>(r, C::kExp) + r_low;
  const Wide high = one + r, low = (one - high) + r;
  return math::scale_by_power<double, math::Sign::any>(high + (low + rest), n);
}

}  // namespace power

namespace power {

template <class T> struct Values {
  Vec<T> value;
  Mask<T> usual;  // lanes in which it is p^q for |p|
};

inline Values<double> of_size(Wide p, Wide q) {
  const Pair l = log_in_full(p);
  Pair x = product(l.high, q);
  x.low += l.low * q;
  const Wide size = absolute(x.high), most = splat(720.0);  // beyond, its exponent would not fit
  x.high = minimum(most, maximum(-most, x.high));
  return {exp_of_pair(x), size < splat(700.0)};
}

inline Values<float> of_size(Vec<float> p, Vec<float> q) {
  const auto raised = [](Wide base, Wide exponent) {
    const Wide x = exponent * log_in_short(base);
    return math::exp_inside<double>(minimum(splat(100.0), maximum(splat(-100.0), x)));
  };
  const Doubles base = widened(p), exponent = widened(q);
  const Vec<float> y = narrowed(raised(base.first, exponent.first), raised(base.second, exponent.second));
  return {y, (y < splat(3.4e38f)) & (y > splat(1.2e-38f))};
}

inline double of_number(double p, double q) { return pow(p, q); }
inline float of_number(float p, float q) { return powf(p, q); }

}  // namespace power

template <class T> inline Vec<T> power_of(Vec<T> p, Vec<T> q) {
  using C = math::Constants<T>;
  const auto of_lane = [](T a, T b) { return power::of_number(a, b); };
  if constexpr (!power::kFused) return by_lanes<T>(of_lane, ~Mask<T>{}, p, p, q);
  const Vec<T> zero = {}, infinity = splat(static_cast<T>(INFINITY)), size = absolute(p), exponent = absolute(q);
  const power::Values<T> found = power::of_size(size, q);
  Mask<T> usual = found.usual & (size >= splat(C::kSmallest)) & (size < infinity) & (exponent < infinity);
  Vec<T> y = found.value;
  const Mask<T> negative = p < zero;
  if (any(negative)) {
    // q is an integer, and an odd one. Numbers above kRound's have no digits after the point.
    const Vec<T> round = splat(C::kRound), half = exponent * splat(static_cast<T>(0.5));
    const Mask<T> integral = ((exponent + round) - round) == exponent, even = ((half + round) - round) == half;
    usual &= ~negative | (integral & (exponent < splat(static_cast<T>(C::kRound / 2))));
    y = select(negative & ~even, -y, y);
  }
  if (any(~usual)) [[unlikely]]
    y = by_lanes<T>(of_lane, ~usual, y, p, q);
  return y;
}

}  // namespace qkv::kernels::QKV_ISA
