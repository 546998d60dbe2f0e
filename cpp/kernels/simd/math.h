// Functions of vectors: exponential, logarithm, tanh, sigmoid, erf of a Vec<float> or Vec<double>.
//
// How to use: include this in a kernel file (compiled per instruction set) and run it over memory with
//
//     map_vectors(y, x, n, [](auto v) { return tanh_of<T>(v); });     // y may be x
//
// The same bits come out wherever in the array a number is. Errors against exact values, over all exponents
// including denormal numbers: at most 1.9 ULP (exp 1.0, log 0.9), 2.2 for erf where there is no fused multiply-add.
// Infinities, NaN and overflow behave as in <math.h>. Polynomials: minimax in the weight named at each one, found with
// 50 digits; those of erf in float by least squares.
#pragma once

#include <math.h>

#include "kernels/simd/fused.h"
#include "kernels/simd/tables.h"

namespace qkv::kernels::QKV_ISA {

// f over n numbers, a vector at a time.
template <class T, class F> inline void map_vectors(T* y, const T* x, Index n, F f) {
  Index i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) store(y + i, f(load(x + i)));
  if (i < n) store_part(y + i, f(load_part(x + i, n - i)), n - i);
}

namespace math {

// c[0] + c[1] x + ... by Horner's rule.
template <class T, int N> inline Vec<T> polynomial(Vec<T> x, const T (&c)[N]) {
  Vec<T> sum = splat<T>(c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) sum = fused(sum, x, splat<T>(c[i]));
  return sum;
}

// The same for even N, with even and odd powers summed apart: half as many steps that wait for each other.
template <class T, int N> inline Vec<T> split_polynomial(Vec<T> x, const T (&c)[N]) {
  const Vec<T> square = x * x;
  Vec<T> even = splat<T>(c[N - 2]), odd = splat<T>(c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 4; i >= 0; i -= 2) {
    even = fused(even, square, splat<T>(c[i]));
    odd = fused(odd, square, splat<T>(c[i + 1]));
  }
  return fused(odd, x, even);
}

template <class T> struct Constants;

template <> struct Constants<float> {
  using Word = uint32_t;
  static constexpr float kLog2e = 1.44269504f;
  static constexpr float kLn2High = 0.693359375f,
                         kLn2Low = -2.12194440e-4f;           // the high part has 9 bits: n * it is exact
  static constexpr float kRound = 12582912.0f;                // 1.5 * 2^23: adding it rounds to integers
  static constexpr float kExpMin = -104.0f, kExpMax = 89.0f;  // exp is 0, or infinite, beyond
  static constexpr int32_t kMantissaBits = 23, kBias = 127;
  static constexpr float kSmallest = 1.17549435e-38f, kLift = 16777216.0f, kLiftExponent = 24.0f;
  // (exp(r) - 1 - r) / r^2 on |r| < ln 2 / 2; relative error of exp 3e-9.
  static constexpr float kExp[5] = {0.499999934f, 0.166665206f, 0.0416683878f, 0.00836871667f, 0.0013814612f};
  // (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2, s from sqrt(1/2) to sqrt(2); 1e-11.
  static constexpr float kLog[4] = {0.666666656f, 0.400003362f, 0.285372382f, 0.235835708f};
  // (tanh(x) / x - 1) / x^2 in x^2 on |x| < 0.625; 2e-10.
  static constexpr float kTanh[6] = {-0.333333309f, 0.133332098f,    -0.0539472046f,
                                     0.0217029686f, -0.00818267724f, 0.0021475397f};
  // 1 / 3!, 1 / 5!, ...
  static constexpr float kSinh[5] = {0.166666667f, 0.00833333333f, 0.000198412698f, 2.75573192e-06f, 2.50521084e-08f};
  // erf(x) / x - 1 in x^2 on |x| < kErfSmall; 1e-9.
  static constexpr float kErf[8] = {0.128379166f,   -0.376126289f,    0.112836748f,    -0.0268602483f,
                                    0.00520901615f, -0.000833957049f, 0.000103938793f, -7.57296812e-06f};
  // erfc(x) on kErfSmall < x < kErfOne, from there to there in (-1, 1); 4e-9. With an exponential and a division
  // instead gelu took 0.93 ns a number, not 0.66 (AVX2, which now has a table).
  static constexpr float kErfc[14] = {0.000205374614f,  -0.00157827674f, 0.00569689274f,  -0.012714982f,
                                      0.0193514172f,    -0.020712411f,   0.0151933637f,   -0.00640729256f,
                                      -0.000460952841f, 0.0028669443f,   -0.00178531813f, 0.00011192479f,
                                      0.000349169655f,  -0.00011583438f};
  static constexpr float kErfSmall = 1.25f, kErfcScale = 0.727272749f, kErfcShift = -1.90909088f;
  static constexpr float kErfOne = 4.0f, kTanhOne = 10.0f;  // erf and tanh are 1 from here
};

template <> struct Constants<double> {
  using Word = uint64_t;
  static constexpr double kLog2e = 1.4426950408889634;
  static constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;  // the high part has 36 bits
  static constexpr double kRound = 6755399441055744.0;                                   // 1.5 * 2^52
  static constexpr double kExpMin = -746.0, kExpMax = 710.0;
  static constexpr int64_t kMantissaBits = 52, kBias = 1023;
  static constexpr double kSmallest = 2.2250738585072014e-308, kLift = 18014398509481984.0, kLiftExponent = 54.0;
  // As above; relative errors 4e-18, 2e-18, 1e-17, 7e-18, 5e-19.
  static constexpr double kExp[10] = {0.50000000000000111,    0.16666666666666413,    0.041666666666530162,
                                      0.0083333333334945549,  0.0013888888943629745,  0.00019841269506377436,
                                      2.4801493098910945e-05, 2.7557586548670361e-06, 2.7630248485211326e-07,
                                      2.5000008332431763e-08};
  static constexpr double kLog[7] = {0.66666666666667351, 0.39999999999411068, 0.28571428743266952, 0.22222198475617713,
                                     0.18183569756953979, 0.15313902834525547, 0.14797511720922479};
  static constexpr double kTanh[11] = {-0.33333333333332876,   0.13333333333264918,    -0.053968253932483556,
                                       0.021869487601994288,   -0.0088632213196385996, 0.003591991573631533,
                                       -0.0014549704906464721, 0.00058635253069537789, -0.00022863333305424592,
                                       7.7219281054335438e-05, -1.6107594489235868e-05};
  static constexpr double kSinh[9] = {0.16666666666666666,    0.008333333333333333,   0.0001984126984126984,
                                      2.7557319223985893e-06, 2.505210838544172e-08,  1.6059043836821613e-10,
                                      7.647163731819816e-13,  2.8114572543455206e-15, 8.22063524662433e-18};
  static constexpr double kErf[12] = {0.12837916709551257,     -0.37612638903183521,    0.11283791670944185,
                                      -0.026866170643111441,   0.0052239776061182011,   -0.0008548325929299106,
                                      0.00012055293576377275,  -1.4924712290816286e-05, 1.6447131419811136e-06,
                                      -1.6206312501557555e-07, 1.3710974567312202e-08,  -7.7794569218311536e-10};
  // exp(x^2) erfc(x) in 1 / (1 + x / 2) on 1 < x < 6.
  static constexpr double kErfc[13] = {
      -3.1305792962147927e-06, 0.28218870584333167,  0.28081630239762301,  0.25731186237758291, 0.11859220454826749,
      0.30899562416011195,     -0.64246450285212353, 1.2595741642475737,   -1.9954017074245312, 1.9429416052760857,
      -1.1260026257380826,     0.36524101079121968,  -0.051790111286307117};
  static constexpr double kErfSmall = 1.0, kErfOne = 6.0, kTanhOne = 20.0;
};

// x * 2^n for integers n (as floating numbers) from kExpMin / ln 2 to kExpMax / ln 2; rounds once into the denormals.
// A sign that is known (0 has both) saves instructions.
enum class Sign { any, negative, positive };
#if defined(__AVX512F__)
template <class T, Sign sign> inline Vec<float> scale_by_power(Vec<float> x, Vec<float> n) {
  return (Vec<float>)_mm512_maskz_scalef_ps(0xffff, (__m512)x, (__m512)n);
}
template <class T, Sign sign> inline Vec<double> scale_by_power(Vec<double> x, Vec<double> n) {
  return (Vec<double>)_mm512_maskz_scalef_pd(0xff, (__m512d)x, (__m512d)n);
}
#else
// As x * 2^(n + lift) * 2^-lift, with a lift for which both powers are normal numbers.
template <class T, Sign sign> inline Vec<T> scale_by_power(Vec<T> x, Vec<T> n) {
  using C = Constants<T>;
  const auto by_sign = [=](Vec<T> negative, Vec<T> positive) {
    if constexpr (sign == Sign::any) return select(n < Vec<T>{}, negative, positive);
    return sign == Sign::negative ? negative : positive;
  };
  constexpr T bias = C::kRound + C::kBias;
  const Vec<T> shifted = n + by_sign(splat<T>(bias + C::kLiftExponent), splat<T>(bias - 1));
  const Vec<T> rest = by_sign(splat<T>(1 / C::kLift), splat<T>(2));
  return x * from_bits(bits(shifted) << C::kMantissaBits) * rest;  // what is left of kRound is shifted out
}
#endif

// exp(x) = 2^n exp(r), n = round(x / ln 2), |r| < ln 2 / 2, for x of that sign, from kExpMin to kExpMax. Three
// operations more (sharp) make the largest error 0.8 instead of 1 ULP, which what is built on it may need. Halved it is
// exp(x) / 2, up to kExpMax + 1.
template <class T, Sign sign = Sign::any, bool sharp = false, bool halved = false> inline Vec<T> exp_inside(Vec<T> x) {
  using C = Constants<T>;
  const Vec<T> n = fused(x, splat<T>(C::kLog2e), splat<T>(C::kRound)) - splat<T>(C::kRound);
  const Vec<T> r = fused(n, splat<T>(-C::kLn2Low), fused(n, splat<T>(-C::kLn2High), x));
  const Vec<T> one = splat<T>(1), square = r * r, rest = polynomial<T>(r, C::kExp), power = halved ? n - one : n;
  if constexpr (!sharp) return scale_by_power<T, sign>(one + fused(square, rest, r), power);
  const Vec<T> high = one + r, low = (one - high) + r;  // high + low = 1 + r exactly
  return scale_by_power<T, sign>(high + fused(square, rest, low), power);
}

// exp(|x|) / 2, which overflows no earlier than sinh and cosh.
template <class T> inline Vec<T> half_exp_of_size(Vec<T> x) {
  return exp_inside<T, Sign::any, true, true>(minimum(splat<T>(Constants<T>::kExpMax + 1), absolute(x)));
}

}  // namespace math

template <class T> inline Vec<T> exp_of(Vec<T> x) {
  using C = math::Constants<T>;
  return math::exp_inside<T>(minimum(splat<T>(C::kExpMax), maximum(splat<T>(C::kExpMin), x)));  // NaN stays
}

// exp(x) for x that are at most 0, or NaN.
template <class T> inline Vec<T> exp_of_negative(Vec<T> x) {
  return math::exp_inside<T, math::Sign::negative>(maximum(splat<T>(math::Constants<T>::kExpMin), x));
}

// log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)), by the series of log((1 + s) / (1 - s)), s = (m - 1) / (m + 1).
template <class T> inline Vec<T> log_of(Vec<T> x) {
  using C = math::Constants<T>;
  using I = typename VectorTypes<T>::Integer;
  const Vec<T> zero = {}, one = splat<T>(1), infinity = splat<T>(static_cast<T>(INFINITY));
  const Mask<T> denormal = x < splat<T>(C::kSmallest);
  const Vec<T> lifted = select(denormal, x * splat<T>(C::kLift), x);
  // Bits of m: those of x with the exponent shifted so that the mantissa starts at sqrt(1/2).
  const Mask<T> root_bits = bits(splat<T>(static_cast<T>(0.70710678118654752440)));
  typedef typename C::Word Words __attribute__((vector_size(kVectorBytes)));  // negative x may wrap
  const Mask<T> shifted = (Mask<T>)((Words)bits(lifted) - (Words)root_bits);
  const Mask<T> exponent = shifted >> C::kMantissaBits;
  const Vec<T> m = from_bits((shifted & ((I{1} << C::kMantissaBits) - 1)) + root_bits);
  // An integer to a floating number of the same width, exactly: it becomes the low bits of 1.5 * 2^(mantissa bits).
  Vec<T> e = from_bits(exponent + bits(splat<T>(C::kRound))) - splat<T>(C::kRound);
  e = select(denormal, e - splat<T>(C::kLiftExponent), e);
  const Vec<T> f = m - one;
  const Vec<T> s = f / (f + splat<T>(2));
  const Vec<T> z = s * s;
  const Vec<T> half_square = splat<T>(static_cast<T>(0.5)) * f * f;
  // log(1 + f) = f - (f^2/2 - s (f^2/2 + z * polynomial)): the small terms are summed first.
  const Vec<T> rest = fused(s, fused(z, math::polynomial<T>(z, C::kLog), half_square), e * splat<T>(C::kLn2Low));
  Vec<T> y = fused(e, splat<T>(C::kLn2High), f - (half_square - rest));
  y = select(x == infinity, infinity, y);
  y = select(x == zero, -infinity, y);
  return select((x < zero) | (x != x), splat<T>(static_cast<T>(NAN)), y);
}

// Of one number, where <math.h> would give bits of its own on each system.
template <class T> T exp_of_number(T x) { return exp_of<T>(splat<T>(x))[0]; }
template <class T> T log_of_number(T x) { return log_of<T>(splat<T>(x))[0]; }

// log(1 + x) without loss of digits near 0: what rounding took away from 1 + x is made good to first order.
template <class T> inline Vec<T> log1p_of(Vec<T> x) {
  const Vec<T> one = splat<T>(1), infinity = splat<T>(static_cast<T>(INFINITY)), whole = one + x, kept = whole - one;
  const Vec<T> y = log_of<T>(whole) + select(x == kept, Vec<T>{}, (x - kept) / whole);
  return select((kept == Vec<T>{}) | (whole == infinity), x, y);
}

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), n and r as above; of halves, because 2^n may be too large.
template <class T> inline Vec<T> expm1_of(Vec<T> x) {
  using C = math::Constants<T>;
  const Vec<T> inside = minimum(splat<T>(C::kExpMax), maximum(splat<T>(-40), x));  // it is -1 below
  const Vec<T> n = fused(inside, splat<T>(C::kLog2e), splat<T>(C::kRound)) - splat<T>(C::kRound);
  const Vec<T> r = fused(n, splat<T>(-C::kLn2Low), fused(n, splat<T>(-C::kLn2High), inside));
  const Vec<T> less_one = fused(r * r, math::polynomial<T>(r, C::kExp), r);
  const Vec<T> half = from_bits(bits(n + splat<T>(C::kRound + C::kBias - 1)) << C::kMantissaBits);
  const Vec<T> y = fused(half, less_one, half - splat<T>(T(0.5)));
  return copy_sign(y + y, x);
}

// (e^|x| + e^-|x|) / 2, and the difference with the sign of x: a series for |x| < 1.
template <class T> inline Vec<T> cosh_of(Vec<T> x) {
  const Vec<T> half = math::half_exp_of_size<T>(x);
  return half + splat<T>(T(0.25)) / half;
}

template <class T> inline Vec<T> sinh_of(Vec<T> x) {
  const Vec<T> half = math::half_exp_of_size<T>(x), z = x * x;
  const Vec<T> near_zero = fused(x * z, math::polynomial<T>(z, math::Constants<T>::kSinh), x);
  return select(absolute(x) < splat<T>(1), near_zero, copy_sign(half - splat<T>(T(0.25)) / half, x));
}

// tanh: a polynomial for |x| < 0.625, else 1 - 2 / (exp(2 |x|) + 1) with the sign of x.
template <class T> inline Vec<T> tanh_of(Vec<T> x) {
#if defined(__AVX2__) || defined(__ARM_FEATURE_FMA)
  if constexpr (sizeof(T) == sizeof(float)) return table::tanh_of(x);
#endif
  using C = math::Constants<T>;
  const Vec<T> size = absolute(x), z = x * x;
  const Vec<T> near_zero = fused(x * z, math::polynomial<T>(z, C::kTanh), x);
  const Vec<T> capped = minimum(splat<T>(C::kTanhOne), size);
  const Vec<T> large =
      splat<T>(1) - splat<T>(2) / (math::exp_inside<T, math::Sign::positive>(capped + capped) + splat<T>(1));
  return copy_sign(select(size < splat<T>(static_cast<T>(0.625)), near_zero, large), x);
}

// 1 / (1 + exp(-x)), from e = exp(-|x|), so that the tail keeps its digits; there e / (1 + e) is e - e * (e / (1 + e)),
// which rounds once less.
template <class T> inline Vec<T> sigmoid_of(Vec<T> x) {
  const Vec<T> e =
      math::exp_inside<T, math::Sign::negative, true>(maximum(splat<T>(math::Constants<T>::kExpMin), -absolute(x)));
  const Vec<T> ratio = select(x < Vec<T>{}, e, splat<T>(1)) / (splat<T>(1) + e);
  return select(x < splat<T>(static_cast<T>(-1.4)), fused(-e, ratio, e), ratio);
}

// erf: a polynomial for small |x|, else 1 - erfc(|x|) with the sign of x.
template <class T> inline Vec<T> erf_of(Vec<T> x) {
#if defined(__AVX2__) || defined(__ARM_FEATURE_FMA)
  if constexpr (sizeof(T) == sizeof(float)) return table::erf_of(x);
#endif
  using C = math::Constants<T>;
  const Vec<T> size = absolute(x), capped = minimum(splat<T>(C::kErfOne), size);
  const Vec<T> near_zero = fused(x, math::polynomial<T>(x * x, C::kErf), x);
  Vec<T> rest;
  if constexpr (sizeof(T) == sizeof(float)) {
    rest = math::split_polynomial<T>(fused(capped, splat<T>(C::kErfcScale), splat<T>(C::kErfcShift)), C::kErfc);
  } else {
    const Vec<T> t = splat<T>(2) / (splat<T>(2) + capped);
    rest = math::exp_inside<T, math::Sign::negative>(-capped * capped) * math::polynomial<T>(t, C::kErfc);
  }
  return select(size < splat<T>(C::kErfSmall), near_zero, copy_sign(splat<T>(1) - rest, x));
}

}  // namespace qkv::kernels::QKV_ISA
