// Sine and cosine of a Vec<float> or Vec<double>.
//
// x = n * pi/2 + r with |r| <= pi/4; then a polynomial of r, chosen and signed by the last two bits of n. The largest
// errors that were measured, next to multiples of pi/2 too: 1.5 ULP for float, 0.8 for double. Beyond kReducible, for
// which the parts of pi/2 do, lanes are reduced one by one by as many bits of 2/pi as they need. NaN and infinities
// give NaN; sin(-0) is -0.
#pragma once

#include <math.h>

#include "kernels/simd/fused.h"
#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {
namespace trigonometry {

// pi/2 in parts of 33 bits, so that a product with an n of 20 bits is exact, and a rest.
constexpr double kPart1 = 1.57079632673412561417e+00, kPart2 = 6.07710050630396597660e-11,
                 kPart3 = 2.02226624871116645580e-21, kRest = 8.47842766036889956997e-32;
constexpr double kTwoOverPi = 6.36619772367581382433e-01, kRound = 6755399441055744.0;  // 1.5 * 2^52
template <class T> constexpr T kReducible = static_cast<T>(sizeof(T) == sizeof(float) ? 65536.0 : 1.6e6);

inline Vec<double> nearest(Vec<double> x) { return fused(x, splat(kTwoOverPi), splat(kRound)) - splat(kRound); }

template <class T> struct Reduced {
  Vec<T> r, low;     // their sum
  Mask<T> quadrant;  // n; its last two bits count
};

inline Reduced<double> reduce(Vec<double> x) {
  const Vec<double> n = nearest(x);
  const Vec<double> a = fused(n, splat(-kPart1), x);  // exact
  const Vec<double> d = fused(n, splat(-kPart2), a), v = d - a;
  const Vec<double> lost = (a - (d - v)) - fused(n, splat(kPart2), v);  // of a - b
  const Vec<double> rest = fused(n, splat(-kRest), fused(n, splat(-kPart3), lost));
  const Vec<double> r = d + rest;
  return {r, (d - r) + rest, bits(n + splat(kRound))};
}

// With fused multiply-adds pi/2 in three parts of 24 bits does for float; without, the digits that cancellation leaves
// come from double.
inline Reduced<float> reduce(Vec<float> x) {
  const Vec<float> round = splat(12582912.0f);  // 1.5 * 2^23
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const Vec<float> rounded = fused(x, splat(0.636619772f), round), n = rounded - round;
  Vec<float> r = fused(n, splat(-1.57079637f), x);
  r = fused(n, splat(4.37113883e-8f), r);
  r = fused(n, splat(1.71512489e-15f), r);
  return {r, Vec<float>{}, bits(rounded)};
#else
  const Doubles wide = widened(x);
  const Vec<double> n = nearest(wide.first), m = nearest(wide.second);
  const auto rest = [](Vec<double> v, Vec<double> turns) {
    return (v - turns * splat(kPart1)) - turns * splat(kPart2);
  };
  return {narrowed(rest(wide.first, n), rest(wide.second, m)), Vec<float>{}, bits(narrowed(n, m) + round)};
#endif
}

// sin and cos of r + low for |r| <= pi/4; polynomials in r^2, of FreeBSD's msun.
inline Vec<double> sine(Vec<double> r, Vec<double> low) {
  const Vec<double> z = r * r, half = splat(0.5);
  Vec<double> p = fused(z, splat(1.58969099521155010221e-10), splat(-2.50507602534068634195e-08));
  p = fused(z, p, splat(2.75573137070700676789e-06));
  p = fused(z, p, splat(-1.98412698298579493134e-04));
  p = fused(z, p, splat(8.33333333332248946124e-03));
  const Vec<double> cube = z * r, inner = fused(-cube, p, half * low);
  return r - fused(cube, splat(1.66666666666666324348e-01), fused(z, inner, -low));
}
inline Vec<double> cosine(Vec<double> r, Vec<double> low) {
  const Vec<double> z = r * r, one = splat(1.0);
  Vec<double> p = fused(z, splat(-1.13596475577881948265e-11), splat(2.08757232129817482790e-09));
  p = fused(z, p, splat(-2.75573143513906633035e-07));
  p = fused(z, p, splat(2.48015872894767294178e-05));
  p = fused(z, p, splat(-1.38888888888741095749e-03));
  p = z * fused(z, p, splat(4.16666666666666019037e-02));
  const Vec<double> half = splat(0.5) * z, w = one - half;
  return w + (((one - w) - half) + fused(z, p, -(r * low)));
}
inline Vec<float> sine(Vec<float> r, Vec<float>) {
  const Vec<float> z = r * r;
  Vec<float> p = fused(z, splat(0.0000027183114939898219064f), splat(-0.000198393348360966317347f));
  p = fused(z, p, splat(0.0083333293858894631756f));
  p = fused(z, p, splat(-0.166666666416265235595f));
  return fused(r * z, p, r);
}
inline Vec<float> cosine(Vec<float> r, Vec<float>) {
  const Vec<float> z = r * r;
  Vec<float> p = fused(z, splat(0.0000243904487962774090654f), splat(-0.00138867637746099294692f));
  p = fused(z, p, splat(0.0416666233237390631894f));
  p = fused(z, p, splat(-0.499999997251031003120f));
  return fused(z, p, splat(1.0f));
}

// 2/pi, 64 bits of the integer part and as many of the fraction as the largest double needs.
inline constexpr uint64_t kTwoOverPiBits[20] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, 0xe99c7026b45f7e41u,
    0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu};

// sin or cos of a finite x that is not small, by Payne and Hanek's reduction: of x * 2/pi = mantissa * 2^e * 2/pi only
// the bits below 4 count. 192 of them are multiplied.
inline double far(double x, bool is_cosine) {
  __extension__ typedef unsigned __int128 Wide;
  uint64_t word;
  __builtin_memcpy(&word, &x, sizeof word);
  const uint64_t mantissa = (word & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  // The first bit that counts: one of weight 2^(1 - e), 64 + (e - 2) bits after the first.
  const int first = static_cast<int>(word >> 52 & 0x7ff) - 1075 + 62, index = first / 64, shift = first % 64;
  uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t high = kTwoOverPiBits[index + i] << shift;
    window[i] = shift == 0 ? high : high | kTwoOverPiBits[index + i + 1] >> (64 - shift);
  }
  const Wide low = static_cast<Wide>(mantissa) * window[2];
  const Wide middle = static_cast<Wide>(mantissa) * window[1] + (low >> 64);
  const uint64_t top = mantissa * window[0] + static_cast<uint64_t>(middle >> 64);
  // Two bits of the quadrant, then the fraction; from one half on it belongs to the next quadrant.
  const Wide fraction = static_cast<Wide>(top) << 66 | static_cast<Wide>(static_cast<uint64_t>(middle)) << 2 |
                        static_cast<uint64_t>(low) >> 62;
  const bool next = static_cast<bool>(fraction >> 127);
  const Wide size = next ? -fraction : fraction;
  const double high = static_cast<double>(size);
  const Wide whole = static_cast<Wide>(high);
  const double rest = whole > size ? -static_cast<double>(whole - size) : static_cast<double>(size - whole);
  constexpr double kUnit = 0x1p-128, kHalfPi = 0x1.921fb54442d18p0, kHalfPiLow = 0x1.1a62633145c07p-54;
  const double sign = (next ? -kUnit : kUnit), a = high * sign, r = a * kHalfPi;
  const double r_low = __builtin_fma(a, kHalfPi, -r) + __builtin_fma(a, kHalfPiLow, rest * sign * kHalfPi);
  const uint64_t quadrant = (top >> 62) + (next ? 1 : 0) + (is_cosine ? 1 : 0);
  const double value = ((quadrant & 1) != 0 ? cosine(splat(r), splat(r_low)) : sine(splat(r), splat(r_low)))[0];
  const bool negative = ((quadrant & 2) != 0) != (x < 0 && !is_cosine);
  return negative ? -value : value;
}

template <class T, bool is_cosine> inline Vec<T> of(Vec<T> x) {
  const Reduced<T> reduced = reduce(x);
  const Mask<T> quadrant = is_cosine ? reduced.quadrant + 1 : reduced.quadrant;
  const Vec<T> s = sine(reduced.r, reduced.low), c = cosine(reduced.r, reduced.low);
  const Vec<T> value = select((quadrant & 1) != 0, c, s);
  const Mask<T> sign = (quadrant & 2) << (8 * sizeof(T) - 2);
  Vec<T> y = from_bits(bits(value) ^ sign);
  if constexpr (!is_cosine) y = select(x == Vec<T>{}, x, y);
  const Vec<T> size = absolute(x), infinity = splat(static_cast<T>(INFINITY));
  const Mask<T> beyond = (size > splat(kReducible<T>)) & (size < infinity);
  if (any(beyond)) [[unlikely]]
    y = by_lanes<T>([](T one) { return static_cast<T>(far(static_cast<double>(one), is_cosine)); }, beyond, y, x);
  return y;
}

}  // namespace trigonometry

template <class T> inline Vec<T> sin_of(Vec<T> x) { return trigonometry::of<T, false>(x); }
template <class T> inline Vec<T> cos_of(Vec<T> x) { return trigonometry::of<T, true>(x); }

}  // namespace qkv::kernels::QKV_ISA
