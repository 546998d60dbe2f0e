// What replaces the exponential of a softmax: weights that a score has by itself, once its row's threshold is
// known.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {

// f<normalizer>() for one that is known at run time.
template <class F> inline void with_normalizer(Normalizer normalizer, F f) {
  switch (normalizer) {
#define X(name, sum, zeros) \
  case Normalizer::name:    \
    return f.template operator()<Normalizer::name>();
    QKV_NORMALIZERS(X)
#undef X
  }
}

// 1 / (1 + exp(-x)); exactly 0 for -inf, and where a weight would be denormal. NaN stays.
template <class T, int N> inline void sigmoids_of(Vec<T> (&x)[N]) {
  Vec<T> e[N];
  for (int i = 0; i < N; ++i) e[i] = -absolute(x[i]);
  weights_of<T, N>(e);
  for (int i = 0; i < N; ++i) x[i] = select(x[i] < Vec<T>{}, e[i], splat<T>(1)) / (splat<T>(1) + e[i]);
}

// What a normaliser computes, of vectors. become_weights(d): the weights of numbers d = score - threshold (sigmoid and
// relu: the score); NaN stays. derivative(w): dw / ds of a weight by its score, its row's sum or threshold left as it
// is. Those with a threshold also have reach: how far below the row's largest score a weight ends at most;
// threshold_derivative(d): that of a weight by -threshold, except for a factor that all share; and threshold(n, mean,
// squares): the threshold of n scores by their mean and squares(), the sum of their squared distances from it.
template <Normalizer> struct Rule;

template <> struct Rule<Normalizer::softmax> {
  template <class T> static Vec<T> derivative(Vec<T> w) { return w; }
};

// 1 / (1 + exp(-d))
template <> struct Rule<Normalizer::sigmoid> {
  template <class T, int N> static void become_weights(Vec<T> (&d)[N]) { sigmoids_of<T, N>(d); }
  template <class T> static Vec<T> derivative(Vec<T> w) { return fused(-w, w, w); }
};

// max(d, 0)
template <> struct Rule<Normalizer::relu> {
  template <class T, int N> static void become_weights(Vec<T> (&d)[N]) {
    const Vec<T> zero = {};
    for (int i = 0; i < N; ++i) d[i] = select(d[i] <= zero, zero, d[i]);
  }
  template <class T> static Vec<T> derivative(Vec<T> w) { return select(w == Vec<T>{}, Vec<T>{}, splat<T>(1)); }
};

template <> struct Rule<Normalizer::sparsemax> : Rule<Normalizer::relu> {
  static constexpr int reach = 1;
  template <class T> static Vec<T> threshold_derivative(Vec<T> d) {
    return select(d > Vec<T>{}, splat<T>(1), Vec<T>{});
  }
  template <class T, class F> static Vec<T> threshold(Vec<T> n, Vec<T> mean, F) { return mean - splat<T>(1) / n; }
};

// max(d / 2, 0)^2
template <> struct Rule<Normalizer::entmax15> {
  template <class T, int N> static void become_weights(Vec<T> (&d)[N]) {
    const Vec<T> zero = {};
    for (int i = 0; i < N; ++i) {
      const Vec<T> above = d[i] * splat<T>(static_cast<T>(0.5));
      d[i] = select(d[i] <= zero, zero, above * above);
    }
  }
  template <class T> static Vec<T> derivative(Vec<T> w) { return any(w != Vec<T>{}) ? sqrt_of(w) : Vec<T>{}; }
  static constexpr int reach = 2;
  template <class T> static Vec<T> threshold_derivative(Vec<T> d) {
    return maximum(d * splat<T>(static_cast<T>(0.5)), Vec<T>{});
  }
  template <class T, class F> static Vec<T> threshold(Vec<T> n, Vec<T> mean, F squares) {
    return mean - sqrt_of(maximum((splat<T>(4) - squares()) / n, Vec<T>{}));
  }
};

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
    Rule<normalizer>::template become_weights<T, 4>(w);
#pragma GCC unroll 4
    for (Index i = 0; i < 4; ++i) f(scores + i * stride, w[i]);
  }
  for (Index i = 0; i < (n & 3); ++i, scores += stride) {
    Vec<T> w[1] = {above(scores)};
    Rule<normalizer>::template become_weights<T, 1>(w);
    f(scores, w[0]);
  }
}

}  // namespace qkv::kernels::QKV_ISA
