// Powers p^q of a Vec<float> or Vec<double>.
//
// p^q = exp(q log |p|), with the sign of p for odd q. Of float in double, of which the result is rounded once: at most
// 0.51 ULP. Of double with a logarithm of two parts (some 68 bits), because an error of log p grows by q log p, which
// may be 700: at most 1.0 ULP was measured. Lanes with zeros, infinities or NaN are decided one by one. Without fused
// multiply-add <math.h> computes all.
#pragma once

#include <math.h>

#include "kernels/simd/math.h"

namespace qkv::kernels::QKV_ISA {
namespace power {

using Wide = Vec<double>;
using C = math::Constants<double>;

// A number as the sum of two, of which the second is below the last place of the first.
struct Pair {
  Wide high, low;
};

inline Pair product(Wide a, Wide b) {
  const Wide high = a * b;
  return {high, fused(a, b, -high)};
}
// a + b for |a| >= |b|.
inline Pair ordered_sum(Wide a, Wide b) {
  const Wide high = a + b;
  return {high, (a - high) + b};
}

// p = 2^e m with m from sqrt(1/2) to sqrt(2), for finite positive p.
struct Parts {
  Wide e, m;
};
inline Parts exponent_and_mantissa(Wide p) {
  const auto denormal = p < splat(C::kSmallest);
  const Wide lifted = select(denormal, p * splat(C::kLift), p);
  const Mask<double> root = bits(splat(0.70710678118654752440)), shifted = bits(lifted) - root;
  const Mask<double> exponent = shifted >> C::kMantissaBits;
  const Wide m = from_bits((shifted & ((int64_t{1} << C::kMantissaBits) - 1)) + root);
  const Wide e = from_bits(exponent + bits(splat(C::kRound))) - splat(C::kRound);
  return {select(denormal, e - splat(C::kLiftExponent), e), m};
}

// log p to about 48 bits.
inline Wide log_in_short(Wide p) {
  const auto [e, m] = exponent_and_mantissa(p);
  const Wide f = m - splat(1.0), s = f / (f + splat(2.0)), z = s * s;
  return fused(e, splat(C::kLn2High),
               fused(s * z, math::polynomial<double>(z, C::kLog), s + s) + e * splat(C::kLn2Low));
}

// log p = e ln 2 + 2 s + 2/3 s^3 + s^5 (2/5 + ...), s = (m - 1) / (m + 1): all but the last in two parts.
inline Pair log_in_full(Wide p) {
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
  const Wide s_low = -fused(s, t_low, fused(s, t, -f)) * inverse;
  const Pair z = product(s, s);
  const Wide z_low = fused(s + s, s_low, z.low);
  // 2/3 z, then times s.
  Pair cubic = product(z.high, splat(kThird2));
  cubic.low += fused(z.high, splat(kThird2Low), z_low * splat(kThird2));
  const Wide tail = z.high * z.high * math::polynomial<double>(z.high, kTail);
  const Pair series = ordered_sum(cubic.high, cubic.low + tail);  // 2/3 s^2 + ...
  Pair rest = product(s, series.high);
  rest.low += fused(s, series.low, s_low * series.high);
  // e ln 2 + 2 s + rest, the largest first; e * kLn2High is exact.
  const Wide twice = s + s, whole = e * splat(C::kLn2High);
  const Wide total = whole + twice, back = total - whole;
  const Wide lost = (whole - (total - back)) + (twice - back);
  const Pair sum = ordered_sum(total, rest.high);
  const Wide low = (sum.low + lost) + fused(e, splat(C::kLn2Low), rest.low + (s_low + s_low));
  return ordered_sum(sum.high, low);
}

// exp(x.high + x.low) for results in the normal range.
inline Wide exp_of_pair(Pair x) {
  const Wide n = fused(x.high, splat(C::kLog2e), splat(C::kRound)) - splat(C::kRound);
  const Wide a = fused(n, splat(-C::kLn2High), x.high), b = fused(n, splat(C::kLn2Low), -x.low);
  const Wide r = a - b, r_low = (a - r) - b, one = splat(1.0);
  const Wide rest = fused(r * r, math::polynomial<double>(r, C::kExp), r_low);
  const Wide high = one + r, low = (one - high) + r;
  return math::scale_by_power<double, math::Sign::any>(high + (low + rest), n);
}

// |p|^q for finite p that is not 0 and finite q.
inline Wide of_size(Wide p, Wide q) {
  const Pair l = log_in_full(p);
  Pair x = product(l.high, q);
  const Mask<double> inside = absolute(x.high) < splat(750.0);  // beyond, the result is infinite or 0
  x.low = select(inside, fused(l.low, q, x.low), Wide{});
  x.high = minimum(splat(C::kExpMax), maximum(splat(C::kExpMin), x.high));
  return exp_of_pair(x);
}

inline Vec<float> of_size(Vec<float> p, Vec<float> q) {
  const auto raised = [](Wide base, Wide exponent) {
    const Wide x = exponent * log_in_short(base);
    return math::exp_inside<double>(minimum(splat(100.0), maximum(splat(-110.0), x)));
  };
  const Doubles base = widened(p), exponent = widened(q);
  return narrowed(raised(base.first, exponent.first), raised(base.second, exponent.second));
}

// p^q where rules decide, or the sign alone; value is |p|^q where p and q are finite and p is not 0.
template <class T> T by_rules(T value, T p, T q) {
  const T infinity = static_cast<T>(INFINITY), size = p < 0 ? -p : p, exponent = q < 0 ? -q : q;
  if (q == 0 || p == 1) return 1;
  if (p != p || q != q) return p + q;
  const T half = q / 2;
  const bool integral = exponent == infinity || trunc(q) == q, odd = integral && trunc(half) != half;
  if (exponent == infinity) return size == 1 ? T(1) : (size > 1) == (q > 0) ? infinity : T(0);
  if (p < 0 && size < infinity && !integral) return static_cast<T>(NAN);
  const T y = size > 0 && size < infinity ? value : (size > 0) == (q > 0) ? infinity : T(0);
  return odd ? copysign(y, p) : y;
}

inline double in_library(double p, double q) { return pow(p, q); }
inline float in_library(float p, float q) { return powf(p, q); }

}  // namespace power

template <class T> inline Vec<T> power_of(Vec<T> p, Vec<T> q) {
  using C = math::Constants<T>;
  if constexpr (!kFused) return by_lanes<T>([](T a, T b) { return power::in_library(a, b); }, ~Mask<T>{}, p, p, q);
  const Vec<T> zero = {}, infinity = splat(static_cast<T>(INFINITY)), size = absolute(p), exponent = absolute(q);
  Vec<T> y = power::of_size(size, q);
  const Mask<T> negative = p < zero;
  Mask<T> usual = (size > zero) & (size < infinity) & (exponent < infinity);
  if (any(negative)) {
    // q is an integer, and an odd one. Numbers above kRound's have no digits after the point.
    const Vec<T> round = splat(C::kRound), half = exponent * splat(static_cast<T>(0.5));
    const Mask<T> integral = ((exponent + round) - round) == exponent, even = ((half + round) - round) == half;
    usual &= ~negative | (integral & (exponent < splat(static_cast<T>(C::kRound / 2))));
    y = select(negative & usual & ~even, -y, y);
  }
  if (any(~usual)) [[unlikely]]
    y = by_lanes<T>([](T value, T a, T b) { return power::by_rules(value, a, b); }, ~usual, y, y, p, q);
  return y;
}

}  // namespace qkv::kernels::QKV_ISA
