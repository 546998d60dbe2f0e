// Division with a remainder, as NumPy defines it for floating numbers.
#pragma once

#include <math.h>

#include "kernels/simd/power.h"

namespace qkv::kernels::QKV_ISA {

namespace division {

// C's fmod, exactly: a - b * trunc(a / b), with the sign of a. fmod itself takes several times as long.
inline double of_number(double a, double b) {
  if (fabs(a) < fabs(b)) return a;
  const double quotient = a / b;
  if (!(fabs(quotient) < 0x1p52)) return fmod(a, b);
  const double rest = fma(-trunc(quotient), b, a);
  // A quotient just below an integer may have been rounded up to it.
  return (rest < 0) != (a < 0) && rest != 0 ? rest + copysign(b, a) : rest;
}
inline float of_number(float a, float b) { return fmodf(a, b); }

template <class T> inline Vec<T> towards_zero(Vec<T> x) {
  const Vec<T> size = absolute(x), round = splat<T>(math::Constants<T>::kRound / T(1.5));
  const Vec<T> near = (size + round) - round, whole = select(near > size, near - splat<T>(1), near);
  return select(size < round, copy_sign(whole, x), x);  // others have no digits after the point
}

// The remainder where a quotient is below the limit, or |a| below |b|. That of two floats below 2^28 is no nearer to an
// integer than 2^-24, so that a double's rounding does not reach one; the product has at most 52 bits.
inline Vec<float> usual_remainder(Vec<float> a, Vec<float> b) {
  const Doubles p = widened(a), q = widened(b);
  const auto rest = [](Vec<double> x, Vec<double> y) { return x - towards_zero<double>(x / y) * y; };
  return narrowed(rest(p.first, q.first), rest(p.second, q.second));
}
inline Vec<double> usual_remainder(Vec<double> a, Vec<double> b) {
  const Vec<double> zero = {}, rest = fused(-towards_zero<double>(a / b), b, a);
  return select(((rest < zero) ^ (a < zero)) & (rest != zero), rest + copy_sign(b, a), rest);
}
template <class T> constexpr T kLimit = sizeof(T) == sizeof(float) ? T(0x1p27) : T(0x1p52);

}  // namespace division

template <class T> inline Vec<T> remainder_of(Vec<T> a, Vec<T> b) {
  const auto of_lane = [](T p, T q) { return division::of_number(p, q); };
  if constexpr (sizeof(T) == sizeof(double) && !kFused) return by_lanes<T>(of_lane, ~Mask<T>{}, a, a, b);
  const Mask<T> is_remainder = absolute(a) < absolute(b);
  // By 0 it is NaN.
  const Mask<T> usual = is_remainder | (b == Vec<T>{}) | (absolute(a / b) < splat<T>(division::kLimit<T>));
  const Vec<T> y = select(is_remainder, a, division::usual_remainder(a, b));
  if (any(~usual)) [[unlikely]]
    return by_lanes<T>(of_lane, ~usual, y, a, b);
  return y;
}

// a % b: NaN for b = 0; a zero has the sign of b.
template <class T> inline Vec<T> floor_remainder(Vec<T> a, Vec<T> b) {
  const Vec<T> zero = {}, rest = remainder_of<T>(a, b);
  const Mask<T> behind = ((b < zero) ^ (rest < zero)) & (b != zero);
  return select(rest == zero, copy_sign(zero, b), select(behind, rest + b, rest));
}

// a // b: what a / b is for b = 0.
template <class T> inline Vec<T> floor_quotient(Vec<T> a, Vec<T> b) {
  const Vec<T> zero = {}, one = splat<T>(1), exact = a / b, rest = remainder_of<T>(a, b);
  const Mask<T> behind = ((b < zero) ^ (rest < zero)) & (rest != zero);
  const Vec<T> near = (a - rest) / b, quotient = select(behind, near - one, near);
  const Vec<T> towards = division::towards_zero<T>(quotient),
               below = select(towards > quotient, towards - one, towards);
  const Vec<T> whole = select(quotient - below > splat<T>(T(0.5)), below + one, below);
  return select(b == zero, exact, select(quotient == zero, copy_sign(zero, exact), whole));
}

}  // namespace qkv::kernels::QKV_ISA
