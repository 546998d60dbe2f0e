// Building blocks of the attention kernels. Internal to attention*.cpp.
//
// Scores stand with one key per line and one query per lane ("key-major"): S[key][row]. So the softmax needs no
// horizontal step, keys and values are read where they stand, one number at a time for a whole vector of queries, and
// only the queries (once per block of rows) and the result are transposed.
#pragma once

#include "kernels/simd.h"

namespace qkv::kernels::QKV_ISA {

// Vectors of queries per block of rows, and keys per step of the online softmax. With 32 registers the accumulators
// of 6 keys x 4 vectors (or 8 x 3, 12 x 2, 12 x 1) stay in them, with 16 registers those of 6 x 2 (or 8 x 1).
#if defined(__AVX512F__)
constexpr Index kMaxVectors = 4;
constexpr Index kTileRows[kMaxVectors + 1] = {0, 12, 12, 8, 6};
#else
constexpr Index kMaxVectors = 2;
constexpr Index kTileRows[kMaxVectors + 1] = {0, 8, 6};
#endif
constexpr Index kBlockKeys = 72;
template <class T> constexpr Index kBlockRows = kMaxVectors * kLanes<T>;

// How a product meets what stands in c.
enum class Into {
  replace,  // c = product
  add,      // c = c + product
  scale     // c = c * factor[column] + product
};

// c (rows, vectors * kLanes; ldc) = a (rows, depth) @ b (depth, vectors * kLanes; ldb), vectors <= kMaxVectors.
// a[row][k] is a[row * stride + k].
template <class T>
void product(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index rows,
             Index depth, Index vectors);
// The same with a[row][k] at a[k * stride + row].
template <class T>
void product_transposed(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                        Index rows, Index depth, Index vectors);
// As product_transposed, but where b is 0 nothing is added, so that 0 * infinity and 0 * NaN in a leave no trace. Slow.
template <class T>
void product_skipping(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index rows, Index depth, Index vectors);

// to[j * width + lane] = from[lane][j] for lanes < count and j < n; lanes from count to width become 0.
// width is a multiple of kLanes.
template <class T> void columns_from_rows(T* to, Index width, const T* const* from, Index count, Index n);
// to[lane][j] = from[j * width + lane] * factor[lane] for lanes < count and j < n.
template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n);

namespace weight {
template <class T> struct Constants;
template <> struct Constants<float> {
  static constexpr float kLog2e = 1.44269504f, kRound = 12582912.0f;  // 1.5 * 2^23
  static constexpr int32_t kMantissaBits = 23, kBias = 127;
  static constexpr float kLowest = -88.0f;  // 2^-127, where the exponent's bits are 0
  // (2^f - 1) / f on |f| < 1/2; relative error of 2^f 9e-8.
  static constexpr float kPower[5] = {0.693146976f, 0.240222405f, 0.0555073507f, 0.00967161882f, 0.00132645756f};
};
template <> struct Constants<double> {
  static constexpr double kLog2e = 1.4426950408889634, kRound = 6755399441055744.0;
  static constexpr int64_t kMantissaBits = 52, kBias = 1023;
  static constexpr double kLowest = -709.0;
  // 3e-18.
  static constexpr double kPower[11] = {0.69314718055994529,    0.2402265069591013,     0.05550410866482007,
                                        0.0096181291075938466,  0.0013333558146777357,  0.00015403530457492161,
                                        1.5252733491266403e-05, 1.3215435077382097e-06, 1.0178200030564254e-07,
                                        7.0738208112394582e-09, 4.4347484067366894e-10};
};
}  // namespace weight

// exp(d) for a score's distance d <= 0 from the row's maximum: exactly 0 below about -88 (double: -709) and for -inf;
// NaN stays. 12 instructions for float.
template <class T> inline Vec<T> weight_of(Vec<T> d) {
  using C = weight::Constants<T>;
  d = maximum(splat<T>(C::kLowest), d);
  const Vec<T> rounded = d * splat<T>(C::kLog2e) + splat<T>(C::kRound);
  const Vec<T> f = d * splat<T>(C::kLog2e) - (rounded - splat<T>(C::kRound));
  constexpr int terms = sizeof(C::kPower) / sizeof(T);
  Vec<T> power = splat<T>(C::kPower[terms - 1]);
#pragma GCC unroll 16
  for (int i = terms - 2; i >= 0; --i) power = power * f + splat<T>(C::kPower[i]);
  power = power * f + splat<T>(1);
  const Mask<T> exponent = bits(rounded) - bits(splat<T>(C::kRound)) + C::kBias;
  return power * from_bits(exponent << C::kMantissaBits);
}

}  // namespace qkv::kernels::QKV_ISA
