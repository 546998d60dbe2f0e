#include "kernels/additive.h"

#include "kernels/simd/family.h"
#include "kernels/simd/fused.h"
#include "kernels/simd/math.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// kLargest: |x| up to here may be prepared. kCap: 1 + E is cut off here, where 1 / (1 + E) is below half an ULP of 1,
// so that a product of four stays in range; kPairCap likewise for two.
template <class T> struct Limits;
template <> struct Limits<float> {
  static constexpr float kLargest = 40.0f, kCap = 0x1p28f, kPairCap = 0x1p60f, kExponent = 80.0f;
};
template <> struct Limits<double> {
  static constexpr double kLargest = 300.0, kCap = 0x1p60, kPairCap = 0x1p250, kExponent = 700.0;
};

template <int N> struct Count {
  static constexpr int value = N;
};

template <class T> Vec<T> load_up_to(const T* x, Index left) {
  if (left >= kLanes<T>) return load(x);
  return left > 0 ? load_part(x, left) : Vec<T>{};
}

template <class T> void prepare(T* e, bool* moderate, const T* x, Index rows, Index features, Index stride) {
  const Vec<T> largest = splat<T>(Limits<T>::kLargest);
  for (Index row = 0; row < rows; ++row, x += features, e += stride) {
    Mask<T> good = largest == largest;
    for (Index m = 0; m < features; m += kLanes<T>) {
      const Vec<T> v = load_up_to(x + m, features - m);
      good &= absolute(v) <= largest;
      store(e + m, exp_of<T>(v + v));
    }
    moderate[row] = !any(~good);
  }
}

template <class T> void pair(T* e, const T* x, const T* y, Index features) {
  for (Index m = 0; m < features; m += kLanes<T>) {
    const Vec<T> v = load_up_to(x + m, features - m) + load_up_to(y + m, features - m);
    store(e + m, exp_of<T>(minimum(splat<T>(Limits<T>::kExponent), v + v)));
  }
}

// 1 + E, at most cap; NaN stays.
template <class T> inline Vec<T> denominator(Vec<T> a, Vec<T> b, Vec<T> cap) {
  return minimum(cap, fused(a, b, splat<T>(1)));
}

// Scores of R queries with all keys. Lines of 64 bytes, so that the same numbers meet at every level.
template <class T, int R>
void score_rows(T* s, Index ld, const T* a, const T* b, const T* weight, T total, Index keys, Index features,
                Index stride) {
  constexpr Index L = kLanes<T>, W = kLineNumbers<T>;
  const Vec<T> cap = splat<T>(Limits<T>::kCap);
  for (Index j = 0; j < keys; ++j, b += stride) {
    Vec<T> total_of[R][kParts];
    for (int p = 0; p < kParts; ++p) {  // part by part: the sums of all take too many registers
      Vec<T> sum[R] = {};
      const T *ap = a + p * L, *bp = b + p * L, *wp = weight + p * L;
      Index m = 0;
      for (; m + 4 * W <= features; m += 4 * W) {
        const Vec<T> b0 = load(bp + m), b1 = load(bp + m + W), b2 = load(bp + m + 2 * W), b3 = load(bp + m + 3 * W);
        const Vec<T> w0 = load(wp + m), w1 = load(wp + m + W), w2 = load(wp + m + 2 * W), w3 = load(wp + m + 3 * W);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const T* row = ap + r * stride + m;
          const Vec<T> d0 = denominator<T>(load(row), b0, cap), d1 = denominator<T>(load(row + W), b1, cap);
          const Vec<T> d2 = denominator<T>(load(row + 2 * W), b2, cap), d3 = denominator<T>(load(row + 3 * W), b3, cap);
          const Vec<T> left = d0 * d1, right = d2 * d3;
          const Vec<T> first = fused(w0, d1, w1 * d0), second = fused(w2, d3, w3 * d2);
          sum[r] += fused(first, right, second * left) / (left * right);
        }
      }
      for (; m + p * L < features; m += W)
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
          sum[r] += load(wp + m) / denominator<T>(load(ap + r * stride + m), load(bp + m), cap);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) total_of[r][p] = sum[r];
    }
    for (int r = 0; r < R; ++r) s[r * ld + j] = total - 2 * horizontal_sum<T>(folded<T>(total_of[r]));
  }
}

template <class T>
void scores(T* s, Index ld, const T* a, const T* b, const T* weight, Index rows, Index keys, Index features,
            Index stride) {
  Vec<T> sum[kParts] = {};
  for (Index m = 0; m < features; m += kLanes<T>) sum[m / kLanes<T> % kParts] += load(weight + m);
  const T total = horizontal_sum<T>(folded<T>(sum));
  Index i = 0;
  for (; i + 4 <= rows; i += 4)
    score_rows<T, 4>(s + i * ld, ld, a + i * stride, b, weight, total, keys, features, stride);
  for (; i < rows; ++i) score_rows<T, 1>(s + i * ld, ld, a + i * stride, b, weight, total, keys, features, stride);
}

// Four keys at a time: one sum would wait for itself.
template <class T> void direct(T* s, const T* query, const T* key, const T* weight, Index keys, Index features) {
  constexpr Index L = kLanes<T>, W = kLineNumbers<T>;
  const auto some = [&](Index first, auto count) {
    constexpr int K = decltype(count)::value;
    const T* row = key + first * features;
    Vec<T> sum[K][kParts] = {};
    const auto add = [&](Index m, int p, auto at) {
#pragma GCC unroll 4
      for (int j = 0; j < K; ++j)
        sum[j][p] = fused(at(weight + m), tanh_of<T>(at(query + m) + at(row + j * features + m)), sum[j][p]);
    };
    Index m = 0;
    for (; m + W <= features; m += W)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) add(m + p * L, p, Whole<T>{});
    rest_of_line<T>(m, features - m, [&](int p, Index i, auto at) { add(i, p, at); });
    for (int j = 0; j < K; ++j) s[first + j] = horizontal_sum<T>(folded<T>(sum[j]));
  };
  Index j = 0;
  for (; j + 4 <= keys; j += 4) some(j, Count<4>{});
  for (; j < keys; ++j) some(j, Count<1>{});
}

template <class T>
void backward(T* dq, T* dr, T* const* dk, const T* g, const T* a, const T* const* b, Index count, Index features) {
  constexpr Index L = kLanes<T>;
  const Vec<T> cap = splat<T>(Limits<T>::kPairCap), one = splat<T>(1);
  Index n = 0;
  for (; n + 2 <= count; n += 2) {
    const T *b0 = b[n], *b1 = b[n + 1];
    T *dk0 = dk[n], *dk1 = dk[n + 1];
    const Vec<T> g0 = splat(g[n]), g1 = splat(g[n + 1]);
    for (Index m = 0; m < features; m += L) {
      const Vec<T> x = load(a + m);
      const Vec<T> e0 = minimum(cap, x * load(b0 + m)), e1 = minimum(cap, x * load(b1 + m));
      const Vec<T> d0 = e0 + one, d1 = e1 + one, reciprocal = one / (d0 * d1);
      const Vec<T> r0 = reciprocal * d1, r1 = reciprocal * d0, gr0 = g0 * r0, gr1 = g1 * r1;
      const Vec<T> s0 = gr0 * (e0 * r0), s1 = gr1 * (e1 * r1);
      store(dr + m, load(dr + m) + (gr0 + gr1));
      store(dq + m, load(dq + m) + (s0 + s1));
      store(dk0 + m, load(dk0 + m) + s0);
      store(dk1 + m, load(dk1 + m) + s1);
    }
  }
  for (; n < count; ++n) {
    const Vec<T> dscore = splat(g[n]);
    for (Index m = 0; m < features; m += L) {
      const Vec<T> e = minimum(cap, load(a + m) * load(b[n] + m)), r = one / (e + one), gr = dscore * r,
                   s = gr * (e * r);
      store(dr + m, load(dr + m) + gr);
      store(dq + m, load(dq + m) + s);
      store(dk[n] + m, load(dk[n] + m) + s);
    }
  }
}

}  // namespace

QKV_FAMILY(Additive, prepare<T>, pair<T>, scores<T>, direct<T>, backward<T>)

}  // namespace qkv::kernels::QKV_ISA
