// What stands in for the exponential of a softmax: weights that a score has by itself, once its row's threshold is
// known. With d = score - threshold, where sigmoid and relu have the threshold 0,
//     sigmoid 1 / (1 + exp(-d)),   relu and sparsemax max(d, 0),   entmax15 max(d / 2, 0)^2.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {

// f<normalizer>() for one that is known at run time.
template <class F> inline void with_normalizer(Normalizer normalizer, F f) {
  switch (normalizer) {
    case Normalizer::softmax:
      return f.template operator()<Normalizer::softmax>();
    case Normalizer::sigmoid:
      return f.template operator()<Normalizer::sigmoid>();
    case Normalizer::relu:
      return f.template operator()<Normalizer::relu>();
    case Normalizer::sparsemax:
      return f.template operator()<Normalizer::sparsemax>();
    case Normalizer::entmax15:
      return f.template operator()<Normalizer::entmax15>();
  }
}

// 1 / (1 + exp(-x)); exactly 0 for -inf, and where a weight would be denormal. NaN stays.
template <class T, int N> inline void sigmoids_of(Vec<T> (&x)[N]) {
  Vec<T> e[N];
  for (int i = 0; i < N; ++i) e[i] = -absolute(x[i]);
  weights_of<T, N>(e);
  for (int i = 0; i < N; ++i) x[i] = select(x[i] < Vec<T>{}, e[i], splat<T>(1)) / (splat<T>(1) + e[i]);
}

// Numbers d, each above or below its row's threshold, become weights. NaN stays.
template <Normalizer normalizer, class T, int N> inline void become_weights(Vec<T> (&d)[N]) {
  if constexpr (normalizer == Normalizer::sigmoid) return sigmoids_of<T, N>(d);
  const Vec<T> zero = {};
  for (int i = 0; i < N; ++i) {
    const Vec<T> above = normalizer == Normalizer::entmax15 ? d[i] * splat<T>(static_cast<T>(0.5)) : d[i];
    d[i] = select(d[i] <= zero, zero, normalizer == Normalizer::entmax15 ? above * above : above);
  }
}

// f(address, weight) for n vectors of scores, `stride` apart, of rows with the threshold base + offset (sigmoid and
// relu: base).
template <Normalizer normalizer, class T, class F>
inline void each_own_weight(T* scores, Index stride, Index n, Vec<T> base, Vec<T> offset, F f) {
  const auto above = [=](const T* s) {
    const Vec<T> distance = load(s) - base;
    return has_threshold(normalizer) ? distance - offset : distance;
  };
  for (Index j = n >> 2; j > 0; --j, scores += 4 * stride) {
    Vec<T> w[4];
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) w[i] = above(scores + i * stride);
    become_weights<normalizer, T, 4>(w);
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) f(scores + i * stride, w[i]);
  }
  for (Index i = 0; i < (n & 3); ++i, scores += stride) {
    Vec<T> w[1] = {above(scores)};
    become_weights<normalizer, T, 1>(w);
    f(scores, w[0]);
  }
}

// dw / ds of a weight w by its score, its row's sum or threshold left as it is.
template <Normalizer normalizer, class T> inline Vec<T> derivative_of(Vec<T> w) {
  const Vec<T> zero = {}, one = splat<T>(1);
  if constexpr (normalizer == Normalizer::softmax) return w;
  else if constexpr (normalizer == Normalizer::sigmoid) return w - w * w;
  else if constexpr (normalizer == Normalizer::entmax15) return any(w != zero) ? sqrt_of(w) : zero;
  else return select(w == zero, zero, one);
}

}  // namespace qkv::kernels::QKV_ISA
