// Plain attention over so few queries and keys that a head is a handful of vectors: the query rows are in the lanes
// of one vector, and nothing is cut into blocks. For 10 heads of 4 rows and 20 features this takes a third of the time
// of the path for long sequences.
#include "kernels/attention/query_tile.h"
#include "kernels/simd/math.h"

namespace qkv::kernels::QKV_ISA {
namespace {

constexpr Index kMostKeys = 16, kMostFeatures = 128;

template <class T> bool is_short(const AttentionProblem<T>& p) {
  return p.queries <= kLineNumbers<T> && p.keys > 0 && p.keys <= kMostKeys && p.key_size <= kMostFeatures;
}

// scores[j * lanes + i] = q_i . k_j for K keys from `first` on; queries (D, lanes). Two running sums for each.
template <class T, int K>
void scores_of(T* scores, const T* queries, const HeadsView<const T>& keys, Index b, Index h, Index first, Index size) {
  constexpr Index w = kLanes<T>;
  const T* key[K];
  for (int j = 0; j < K; ++j) key[j] = keys.at(b, h, first + j);
  Vec<T> even[K] = {}, odd[K] = {};
  Index f = 0;
  for (; f + 2 <= size; f += 2) {
    const Vec<T> one = load(queries + f * w), other = load(queries + (f + 1) * w);
#pragma GCC unroll 4
    for (int j = 0; j < K; ++j) {
      even[j] = fused(one, splat<T>(key[j][f]), even[j]);
      odd[j] = fused(other, splat<T>(key[j][f + 1]), odd[j]);
    }
  }
  if (f < size)
    for (int j = 0; j < K; ++j) even[j] = fused(load(queries + f * w), splat<T>(key[j][f]), even[j]);
  for (int j = 0; j < K; ++j) store(scores + (first + j) * w, even[j] + odd[j]);
}

// R result rows at once: a value is read once for them. One whose weight is 0 is not read if it `skips` (R = 1).
template <class T, int R, bool skips>
void rows_of(T* const* out, const T* weights, const T* const* values, Index keys, Index size) {
  constexpr Index w = kLanes<T>;
  for (Index i = 0; i < size; i += w) {
    const Index n = size - i;
    Vec<T> sum[R] = {};
    for (Index j = 0; j < keys; ++j) {
      if (skips && weights[j * w] == 0) continue;
      const Vec<T> value = n >= w ? load(values[j] + i) : load_part(values[j] + i, n);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r] = fused(splat<T>(weights[j * w + r]), value, sum[r]);
    }
    for (int r = 0; r < R; ++r) {
      if (n >= w) store(out[r] + i, sum[r]);
      else store_part(out[r] + i, sum[r], n);
    }
  }
}

template <class T>
void forward_short(const AttentionResult<T>& result, const AttentionProblem<T>& p, Index begin, Index end) {
  constexpr Index w = kLanes<T>;
  alignas(64) T queries[kMostFeatures * w], scores[kMostKeys * w], largest[w], inverse[w], lse[w];
  const Vec<T> zero = {}, lowest = splat<T>(static_cast<T>(-INFINITY));
  for (Index head = begin; head < end; ++head)
    for (Index first = 0; first < p.queries; first += w) {  // as many rows as a vector has lanes
      const Index b = head / p.heads, h = head % p.heads, count = at_most(p.queries - first, w);
      if (count < w)
        for (Index f = 0; f < p.key_size; ++f) store(queries + f * w, zero);
      for (Index i = 0; i < count; ++i) {
        const T* q = p.query.at(b, h, first + i);
        for (Index f = 0; f < p.key_size; ++f) queries[f * w + i] = q[f] * p.scale;
      }
      Index j = 0;
      for (; j + 4 <= p.keys; j += 4) scores_of<T, 4>(scores, queries, p.key, b, h, j, p.key_size);
      for (; j < p.keys; ++j) scores_of<T, 1>(scores, queries, p.key, b, h, j, p.key_size);

      Vec<T> top = lowest, sum = zero;
      for (j = 0; j < p.keys; ++j) top = maximum(load(scores + j * w), top);
      const Vec<T> base = select(top == lowest, zero, top);
      for (j = 0; j < p.keys; ++j) {
        const Vec<T> e = exp_of_negative<T>(load(scores + j * w) - base);
        store(scores + j * w, e);
        sum += e;
      }
      const Vec<T> share = select(sum == zero, zero, splat<T>(1) / sum);  // a row of -inf alone is empty
      Mask<T> none = {};                                                  // weights of 0
      for (j = 0; j < p.keys; ++j) {
        const Vec<T> weight = load(scores + j * w) * share;
        store(scores + j * w, weight);
        none |= weight == zero;
      }

      const Index at = head * p.queries + first;
      if (result.lse != nullptr) {
        const Vec<T> whole = select(top == -lowest, top, top + log_of<T>(sum));  // of +inf the sum is NaN
        store(lse, select(sum == zero, lowest, whole));
        for (Index i = 0; i < count; ++i) result.lse[at + i] = lse[i];
      }
      if (result.statistics != nullptr) {
        store(largest, select(sum == zero, zero, top));
        store(inverse, share);
        for (Index i = 0; i < count; ++i) {
          result.statistics[2 * (at + i)] = largest[i];
          result.statistics[2 * (at + i) + 1] = inverse[i];
        }
      }
      if (result.out.data != nullptr) {
        const T* values[kMostKeys];
        T* rows[w];
        for (j = 0; j < p.keys; ++j) values[j] = p.value.at(b, h, j);
        for (Index i = 0; i < count; ++i) rows[i] = result.out.at(b, h, first + i);
        Index i = 0;
        if constexpr (w >= 4)
          for (; !any(none) && i + 4 <= count; i += 4)
            rows_of<T, 4, false>(rows + i, scores + i, values, p.keys, p.value_size);
        for (; i < count; ++i) rows_of<T, 1, true>(rows + i, scores + i, values, p.keys, p.value_size);
      }
      if (result.weights.data != nullptr)
        for (Index i = 0; i < count; ++i)
          for (j = 0; j < p.keys; ++j) *result.weights.at(b, h, first + i, j) = scores[j * w + i];
    }
}

}  // namespace

template <class T> void set_short_kernel(Attention<T>& table) {
  table.is_short = is_short<T>;
  table.forward_short = forward_short<T>;
}

template void set_short_kernel(Attention<float>&);
template void set_short_kernel(Attention<double>&);

}  // namespace qkv::kernels::QKV_ISA
