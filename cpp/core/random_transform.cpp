// A multiplication and an addition are fused exactly where std::fma is called.
#include "core/random_transform.h"

#include <bit>
#include <cmath>

#include "core/cpu.h"

// Each loop exists twice, for the baseline instruction set and for AVX2 with FMA, chosen at run time. Both give the
// same bits, because std::fma rounds once in both; without the instruction it is a call into the mathematics library.
#if defined(__x86_64__)
#define QKV_TWO_VERSIONS(name, parameters, arguments)                                               \
  __attribute__((target("avx2,fma"))) static void name##_avx2 parameters { name##_loop arguments; } \
  static void name##_baseline parameters { name##_loop arguments; }                                 \
  void name parameters {                                                                            \
    if (has_avx2()) {                                                                               \
      name##_avx2 arguments;                                                                        \
    } else {                                                                                        \
      name##_baseline arguments;                                                                    \
    }                                                                                               \
  }
#else
#define QKV_TWO_VERSIONS(name, parameters, arguments) \
  void name parameters { name##_loop arguments; }
#endif
#define QKV_INLINE inline __attribute__((always_inline))

namespace qkv::random_transform {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  static const bool answer = chosen_isa() != Isa::baseline;
  return answer;
}
#endif

constexpr Index kWords = 624;
constexpr Index kOffset = 397;

QKV_INLINE std::uint32_t next_word(std::uint32_t current, std::uint32_t next, std::uint32_t far) {
  const std::uint32_t joined = (current & 0x80000000u) | (next & 0x7fffffffu);
  return far ^ (joined >> 1) ^ ((next & 1u) * 0x9908b0dfu);
}

QKV_INLINE void twist_loop(std::uint32_t* state) {
  for (Index i = 0; i < kWords - kOffset; ++i) state[i] = next_word(state[i], state[i + 1], state[i + kOffset]);
  for (Index i = kWords - kOffset; i < kWords - 1; ++i) {
    state[i] = next_word(state[i], state[i + 1], state[i + kOffset - kWords]);
  }
  state[kWords - 1] = next_word(state[kWords - 1], state[0], state[kOffset - 1]);
}

QKV_INLINE void temper_loop(std::uint32_t* __restrict out, const std::uint32_t* __restrict state) {
  for (Index i = 0; i < kWords; ++i) {
    std::uint32_t y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    out[i] = y ^ (y >> 18);
  }
}

QKV_INLINE void uniform_float_loop(float* __restrict out, const std::uint32_t* __restrict words, Index n, float low,
                                   float high) {
  const float span = high - low;
  for (Index i = 0; i < n; ++i) {
    const float u = static_cast<float>(static_cast<std::int32_t>(words[i] & 0xffffffu)) * 0x1p-24f;
    const float value = std::fma(u, span, low);
    out[i] = value == high ? low : value;
  }
}

QKV_INLINE void uniform_double_loop(double* __restrict out, const std::uint32_t* __restrict words, Index n, double low,
                                    double high) {
  const double span = high - low;
  for (Index i = 0; i < n; ++i) {
    // 21 + 32 bits through signed integers, because AVX2 converts no others; every step is exact.
    const double upper = static_cast<double>(static_cast<std::int32_t>(words[2 * i] & 0x1fffffu)) * 0x1p32;
    const double lower = static_cast<double>(static_cast<std::int32_t>(words[2 * i + 1] ^ 0x80000000u)) + 0x1p31;
    const double value = std::fma((upper + lower) * 0x1p-53, span, low);
    out[i] = value == high ? low : value;
  }
}

template <class T>
QKV_INLINE void bernoulli_loop(T* __restrict out, const std::uint32_t* __restrict words, Index n, double p) {
  // k * 2^-53 < p for an integer k says k < ceil(p * 2^53): the comparison needs no conversion.
  const std::int64_t bound = static_cast<std::int64_t>(std::ceil(p * 0x1p53));
  for (Index i = 0; i < n; ++i) {
    const std::int64_t upper = static_cast<std::int64_t>(words[2 * i] & 0x1fffffu) << 32;
    out[i] = static_cast<T>((upper | static_cast<std::int64_t>(words[2 * i + 1])) < bound);
  }
}

QKV_INLINE void bernoulli_float_loop(float* out, const std::uint32_t* words, Index n, double p) {
  bernoulli_loop(out, words, n, p);
}
QKV_INLINE void bernoulli_double_loop(double* out, const std::uint32_t* words, Index n, double p) {
  bernoulli_loop(out, words, n, p);
}
QKV_INLINE void bernoulli_bool_loop(bool* out, const std::uint32_t* words, Index n, double p) {
  bernoulli_loop(out, words, n, p);
}

// log(x) of a positive normal number, Cephes' polynomial.
QKV_INLINE float polynomial_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  const float half_up = std::bit_cast<float>((bits & 0x007fffff) | 0x3f000000);  // x = 2^exponent * half_up
  const bool low = half_up < 0.70710678f;
  const float exponent = static_cast<float>((bits >> 23) - (low ? 127 : 126));
  const float m = (half_up - 1.0f) + (low ? half_up : 0.0f);
  const float z = m * m;
  float y = 7.0376836292e-2f;
  y = std::fma(y, m, -1.1514610310e-1f);
  y = std::fma(y, m, 1.1676998740e-1f);
  y = std::fma(y, m, -1.2420140846e-1f);
  y = std::fma(y, m, 1.4249322787e-1f);
  y = std::fma(y, m, -1.6668057665e-1f);
  y = std::fma(y, m, 2.0000714765e-1f);
  y = std::fma(y, m, -2.4999993993e-1f);
  y = std::fma(y, m, 3.3333331174e-1f);
  y = y * m;
  y = std::fma(y, z, exponent * -2.12194440e-4f);
  y = std::fma(-z, 0.5f, y);
  return std::fma(exponent, 0.693359375f, m + y);
}

struct SinCos {
  float sin;
  float cos;
};

// sin(x), cos(x) for x >= 0, Cephes' polynomials after a reduction by multiples of pi / 4 in three parts.
QKV_INLINE SinCos polynomial_sincos(float x) {
  const std::int32_t octant = (static_cast<std::int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float y = static_cast<float>(octant);
  x = std::fma(y, -0.78515625f, x);
  x = std::fma(y, -2.4187564849853515625e-4f, x);
  x = std::fma(y, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f) * z;
  c = std::fma(c, z, -(z * 0.5f)) + 1.0f;
  float s = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f) * z;
  s = std::fma(s, x, x);
  const bool straight = (octant & 2) == 0;
  const std::uint32_t sin_sign = static_cast<std::uint32_t>(octant & 4) << 29;
  const std::uint32_t cos_sign = static_cast<std::uint32_t>(~(octant - 2) & 4) << 29;
  const float sin = straight ? s : c;
  const float cos = straight ? c : s;
  return {std::bit_cast<float>(std::bit_cast<std::uint32_t>(sin) ^ sin_sign),
          std::bit_cast<float>(std::bit_cast<std::uint32_t>(cos) ^ cos_sign)};
}

QKV_INLINE void normal_float_loop(float* values, Index blocks, float mean, float std) {
  for (Index block = 0; block < blocks; ++block, values += 16) {
    float first[8];
    float second[8];
    for (int j = 0; j < 8; ++j) {
      const float radius = std::sqrt(-2.0f * polynomial_log(1.0f - values[j]));
      const SinCos angle = polynomial_sincos(6.2831855f * values[j + 8]);
      first[j] = std::fma(radius * angle.cos, std, mean);
      second[j] = std::fma(radius * angle.sin, std, mean);
    }
    for (int j = 0; j < 8; ++j) values[j] = first[j];
    for (int j = 0; j < 8; ++j) values[j + 8] = second[j];
  }
}

QKV_TWO_VERSIONS(uniform_float, (float* out, const std::uint32_t* words, Index n, float low, float high),
                 (out, words, n, low, high))
QKV_TWO_VERSIONS(uniform_double, (double* out, const std::uint32_t* words, Index n, double low, double high),
                 (out, words, n, low, high))
QKV_TWO_VERSIONS(bernoulli_float, (float* out, const std::uint32_t* words, Index n, double p), (out, words, n, p))
QKV_TWO_VERSIONS(bernoulli_double, (double* out, const std::uint32_t* words, Index n, double p), (out, words, n, p))
QKV_TWO_VERSIONS(bernoulli_bool, (bool* out, const std::uint32_t* words, Index n, double p), (out, words, n, p))
QKV_TWO_VERSIONS(normal_float, (float* values, Index blocks, float mean, float std), (values, blocks, mean, std))

}  // namespace

QKV_TWO_VERSIONS(twist, (std::uint32_t* state), (state))
QKV_TWO_VERSIONS(temper, (std::uint32_t* out, const std::uint32_t* state), (out, state))

void uniform(float* out, const std::uint32_t* words, Index n, float low, float high) {
  uniform_float(out, words, n, low, high);
}

void uniform(double* out, const std::uint32_t* words, Index n, double low, double high) {
  uniform_double(out, words, n, low, high);
}

void bernoulli(float* out, const std::uint32_t* words, Index n, double p) { bernoulli_float(out, words, n, p); }
void bernoulli(double* out, const std::uint32_t* words, Index n, double p) { bernoulli_double(out, words, n, p); }
void bernoulli(bool* out, const std::uint32_t* words, Index n, double p) { bernoulli_bool(out, words, n, p); }

void normal_blocks(float* values, Index blocks, float mean, float std) { normal_float(values, blocks, mean, std); }

void normal_blocks(double* values, Index blocks, double mean, double std) {
  for (Index block = 0; block < blocks; ++block, values += 16) {
    for (int j = 0; j < 8; ++j) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - values[j]));
      const double angle = 6.283185307179586 * values[j + 8];
      values[j] = std::fma(radius * std::cos(angle), std, mean);
      values[j + 8] = std::fma(radius * std::sin(angle), std, mean);
    }
  }
}

}  // namespace qkv::random_transform
