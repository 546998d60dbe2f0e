// Division with a remainder, as NumPy defines it for floating numbers.
#pragma once

#include <math.h>

namespace qkv::kernels::QKV_ISA {

// C's fmod, exactly: a - b * trunc(a / b), with the sign of a. fmod itself takes several times as long.
inline float exact_fmod(float a, float b) {
  if (fabsf(a) < fabsf(b)) return a;
  // The quotient of two floats below 2^28 is no nearer to an integer than 2^-24, so that a double's rounding does not
  // reach one; the product has at most 52 bits.
  const double quotient = static_cast<double>(a) / static_cast<double>(b);
  if (!(fabs(quotient) < 0x1p28)) return fmodf(a, b);
  return static_cast<float>(static_cast<double>(a) - trunc(quotient) * static_cast<double>(b));
}

inline double exact_fmod(double a, double b) {
  if (fabs(a) < fabs(b)) return a;
  const double quotient = a / b;
  if (!(fabs(quotient) < 0x1p52)) return fmod(a, b);
  const double rest = fma(-trunc(quotient), b, a);
  // A quotient just below an integer may have been rounded up to it.
  return (rest < 0) != (a < 0) && rest != 0 ? rest + copysign(b, a) : rest;
}

// a % b: NaN for b = 0; a zero has the sign of b.
template <class T> inline T floor_remainder(T a, T b) {
  const T rest = exact_fmod(a, b);
  if (rest == 0) return static_cast<T>(copysign(T(0), b));
  return (b < 0) != (rest < 0) && b != 0 ? rest + b : rest;
}

// a // b: what a / b is for b = 0.
template <class T> inline T floor_quotient(T a, T b) {
  const T exact = a / b;
  if (b == 0) return exact;
  const T rest = exact_fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return static_cast<T>(copysign(T(0), exact));
  const T whole = static_cast<T>(floor(quotient));
  return quotient - whole > T(0.5) ? whole + 1 : whole;
}

}  // namespace qkv::kernels::QKV_ISA
