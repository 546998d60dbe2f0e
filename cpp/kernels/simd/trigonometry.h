// Sine and cosine of a Vec<float> or Vec<double>.
//
// x = n * pi/2 + r with |r| <= pi/4; then a polynomial of r, chosen and signed by the last two bits of n. The largest
// errors that were measured, next to multiples of pi/2 too: 1.5 ULP for float, 0.8 for double. Beyond kReducible, for
// which the parts of pi/2 do, lanes are computed by <math.h> one by one. NaN and infinities give NaN; sin(-0) is -0.
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
  Mask<T> quadrant;  // n, of which the last two bits count
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

template <class T, bool is_cosine> inline Vec<T> of(Vec<T> x) {
  const Reduced<T> reduced = reduce(x);
  const Mask<T> quadrant = is_cosine ? reduced.quadrant + 1 : reduced.quadrant;
  const Vec<T> s = sine(reduced.r, reduced.low), c = cosine(reduced.r, reduced.low);
  const Vec<T> value = select((quadrant & 1) != 0, c, s);
  const Mask<T> sign = (quadrant & 2) << (8 * sizeof(T) - 2);
  Vec<T> y = from_bits(bits(value) ^ sign);
  if constexpr (!is_cosine) y = select(x == Vec<T>{}, x, y);
  const Vec<T> size = absolute(x), infinity = splat(static_cast<T>(INFINITY));
  const Mask<T> far = (size > splat(kReducible<T>)) & (size < infinity);
  if (any(far)) [[unlikely]]
    y = by_lanes<T>([](T one) { return static_cast<T>(is_cosine ? cos(one) : sin(one)); }, far, y, x);
  return y;
}

}  // namespace trigonometry

template <class T> inline Vec<T> sin_of(Vec<T> x) { return trigonometry::of<T, false>(x); }
template <class T> inline Vec<T> cos_of(Vec<T> x) { return trigonometry::of<T, true>(x); }

}  // namespace qkv::kernels::QKV_ISA
