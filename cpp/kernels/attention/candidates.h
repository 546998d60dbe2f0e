// The thresholds of sparsemax and entmax15, found in one pass over the keys. A score at least 1 (entmax15: 2) below its
// row's largest has no weight, and neither has one below the threshold of a part of the row, so few keys are kept.
#pragma once

#include <math.h>

#include "kernels/attention/normalizer.h"
#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

// Whether a number of a vector is above its bound, or none. (From a comparison as it is, GCC makes a vector first.)
#if defined(__AVX512F__)
inline bool any_not_below(Vec<float> x, Vec<float> bound) {
  return _mm512_cmp_ps_mask((__m512)x, (__m512)bound, _CMP_NLE_UQ) != 0;
}
inline bool any_not_below(Vec<double> x, Vec<double> bound) {
  return _mm512_cmp_pd_mask((__m512d)x, (__m512d)bound, _CMP_NLE_UQ) != 0;
}
#else
template <class V> inline bool any_not_below(V x, V bound) { return any(~(x <= bound)); }
#endif

// Of one vector of rows, the scores of keys that may have weight in one of them. Thresholds are told from the row's
// largest score: 1 is nothing beside scores of -1e9, which fill excluded places.
template <class T> struct Candidates {
  T* scores;      // (count, kLanes)
  int32_t* keys;  // (count), ascending
  Index count, kept;
  alignas(64) T largest[kLanes<T>];  // score; 0 for empty rows
  // Threshold - largest, no more than that of all keys; in the end that, below 0, but 0 for empty rows.
  alignas(64) T offset[kLanes<T>];

  static Index elements(Index most_keys) { return (kLanes<T> + 1) * most_keys; }

  void start(T* memory, Index most_keys, Index rows) {
    scores = memory;
    keys = reinterpret_cast<int32_t*>(memory + kLanes<T> * most_keys);
    count = kept = 0;
    // Nothing is above the second number: lanes after the last row have no candidates.
    for (Index i = 0; i < kLanes<T>; ++i) {
      offset[i] = bound_[i] = static_cast<T>(i < rows ? -INFINITY : INFINITY);
      largest[i] = 0;
    }
  }

  // Scores of n keys, `width` apart, of which the first is `key`.
  template <Normalizer normalizer> void add(const T* tile, Index width, Index key, Index n) {
    const Vec<T> bound = load(bound_);
    const auto line = [&](Index j) { return load(tile + j * width); };
    const auto take = [&](Index j) {  // without a branch, which would often be predicted wrongly
      store(scores + count * kLanes<T>, line(j));
      keys[count] = static_cast<int32_t>(key + j);
      count += any_not_below(line(j), bound);
    };
    Index j = 0;
    for (; j + 4 <= n; j += 4) {
      bool found = false;
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) found |= any_not_below(line(j + i), bound);
      if (found)
        for (Index i = 0; i < 4; ++i) take(j + i);
    }
    for (; j < n; ++j) take(j);
    if (count < 2 * kept + kFew) return;
    raise<normalizer>(2);  // with more, the steps take longer than the keys that they leave out
    drop();
  }

  // When all keys have been added.
  template <Normalizer normalizer> void finish() {
    raise<normalizer>(64);
    drop();
    const Vec<T> zero = {}, one = splat<T>(1), before = load(offset);
    // With the keys that have weight known, the threshold is that of these alone: the same bits, with any others as
    // candidates on the way.
    Vec<T> n = zero, sum = zero;
    for (Index j = 0; j < count; ++j) {
      const Vec<T> x = distance(j);
      n += select(x > before, one, zero);
      sum += select(x > before, x, zero);
    }
    const Vec<T> mean = sum / n;
    const auto squares = [&] {
      Vec<T> total = zero;
      for (Index j = 0; j < count; ++j) {
        const Vec<T> x = distance(j), apart = x - mean;
        total = select(x > before, fused(apart, apart, total), total);
      }
      return total;
    };
    const Vec<T> last = select(n > zero, Rule<normalizer>::template threshold<T>(n, mean, squares), before);
    store(offset, select(last == splat<T>(static_cast<T>(-INFINITY)), zero, last));
  }

  template <Normalizer normalizer> Vec<T> weight(Index at) const {
    return weight_above<normalizer>(distance(at) - load(offset));
  }

  // 1 / sum of the weights' derivatives; 0 for empty rows.
  template <Normalizer normalizer> Vec<T> inverse_of_derivatives() const {
    Vec<T> sum = {};
    for (Index j = 0; j < count; ++j) sum += Rule<normalizer>::template derivative<T>(weight<normalizer>(j));
    return select(sum == Vec<T>{}, Vec<T>{}, splat<T>(1) / sum);
  }

 private:
  static constexpr Index kFew = 64;
  alignas(64) T bound_[kLanes<T>];  // scores up to it have no weight

  template <Normalizer normalizer> static Vec<T> weight_above(Vec<T> above) {
    Vec<T> d[1] = {above};
    Rule<normalizer>::template become_weights<T, 1>(d);
    return d[0];
  }
  Vec<T> distance(Index j) const { return load(scores + j * kLanes<T>) - load(largest); }

  // Raises the thresholds towards those of the candidates so far. The sum of the weights is convex in the threshold, so
  // that Newton's steps from below stay below.
  template <Normalizer normalizer> void raise(int most_steps) {
    constexpr T reach = Rule<normalizer>::reach;
    constexpr T epsilon = sizeof(T) == sizeof(float) ? T(1.2e-7) : T(2.3e-16);
    const Vec<T> zero = {}, lowest = splat<T>(static_cast<T>(-INFINITY));
    Vec<T> top = lowest;
    for (Index j = 0; j < count; ++j) top = maximum(load(scores + j * kLanes<T>), top);
    const auto none = top == lowest;
    const Vec<T> base = select(none, zero, top), before = load(offset);
    Vec<T> tau = select(none, before, maximum(before + (load(largest) - base), splat<T>(-reach)));
    store(largest, base);
    for (int step = 0; step < most_steps; ++step) {
      Vec<T> sum[4] = {}, derivative[4] = {};
      const auto look = [&](Index j, Index i) {
        const Vec<T> above = distance(j) - tau;
        sum[i] += weight_above<normalizer>(above);
        derivative[i] += Rule<normalizer>::template threshold_derivative<T>(above);
      };
      Index j = 0;
      for (; j + 4 <= count; j += 4)
#pragma GCC unroll 4
        for (Index i = 0; i < 4; ++i) look(j + i, i);
      for (; j < count; ++j) look(j, 0);
      const Vec<T> excess = (sum[0] + sum[1]) + (sum[2] + sum[3]) - splat<T>(1);
      const Vec<T> next = tau + excess / ((derivative[0] + derivative[1]) + (derivative[2] + derivative[3]));
      const auto higher = next > tau + splat<T>(2 * epsilon);
      if (!any(higher)) break;
      tau = select(higher, next, tau);
    }
    store(offset, tau);
    store(bound_, fused(absolute(base), splat<T>(-epsilon), base + tau));  // rounded down
  }

  // Leaves out the keys that have no weight by the thresholds so far.
  void drop() {
    const Vec<T> bound = load(bound_);
    Index left = 0;
    for (Index j = 0; j < count; ++j) {
      const Vec<T> s = load(scores + j * kLanes<T>);
      store(scores + left * kLanes<T>, s);
      keys[left] = keys[j];
      left += any_not_below(s, bound);
    }
    count = kept = left;
  }
};

}  // namespace qkv::kernels::QKV_ISA
