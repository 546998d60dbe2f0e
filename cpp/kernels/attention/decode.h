// Scores and values for blocks of few rows, as in decoding with a cache: then nearly all lanes of the tiles would be
// empty, and the time is that of reading keys and values once, so features are in the lanes instead of queries.
#pragma once

#include "kernels/attention/query_tile.h"
#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
// Dot products of x (n) with kLanes keys, one per lane; of fewer that are real, the last one stands for the others.
template <class T, bool whole> inline Vec<T> dots(const T* x, const T* keys, Index stride, Index count, Index n) {
  constexpr Index w = kLanes<T>;
  const auto key = [=](Index j) { return keys + (whole ? j : at_most(j, count - 1)) * stride; };
  // So many keys at a time that their sums, a line each, stay in registers: every index is known when this is compiled.
  constexpr Index line = kLineNumbers<T>, together = kRegisters == 32 ? w : w > kParts ? w / kParts : 1;
  Vec<T> total[w];
#pragma GCC unroll 16
  for (Index first = 0; first < w; first += together) {
    Vec<T> sum[together][kParts];
#pragma GCC unroll 16
    for (Index j = 0; j < together; ++j)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) sum[j][p] = Vec<T>{};
    const auto add = [&](Index i, int p, auto at) __attribute__((always_inline)) {
      const Vec<T> part = at(x + i);
#pragma GCC unroll 16
      for (Index j = 0; j < together; ++j) sum[j][p] = fused(at(key(first + j) + i), part, sum[j][p]);
    };
    Index i = 0;
    for (; i + line <= n; i += line)
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p) add(i + p * w, p, Whole<T>{});
    rest_of_line<T>(i, n - i, [&](int p, Index from, auto at) __attribute__((always_inline)) { add(from, p, at); });
#pragma GCC unroll 16
    for (Index j = 0; j < together; ++j) total[first + j] = folded<T>(sum[j]);
  }
  return sum_each<T>(total);
}

// y (V vectors) = y * factor + sum of weights[j * step] * values[j], over keys whose weight is not 0. The sum is made
// apart and added as a whole: added to y one by one, 10^6 equal values lose 1 %, in steps of 128 keys 10^-4.
template <class T, int V>
void pool(T* y, T factor, const T* weights, Index step, const T* values, Index stride, Index keys) {
  Vec<T> sum[V] = {};
  for (Index j = 0; j < keys; ++j) {
    const T weight = weights[j * step];
    if (weight == 0) continue;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[v] = fused(load(values + j * stride + v * kLanes<T>), splat<T>(weight), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) store(y + v * kLanes<T>, fused(load(y + v * kLanes<T>), splat<T>(factor), sum[v]));
}

// scores (n, width) of few rows, 0 after them; queries as load_queries leaves them.
template <class T>
void decode_scores(T* scores, Index width, const T* queries, const T* keys, Index stride, Index rows, Index n,
                   Index size) {
  constexpr Index w = kLanes<T>;
  alignas(64) T line[w];
  for (Index j = 0; j < n; j += w) {
    const Index count = n - j < w ? n - j : w;
    for (Index i = 0; i < count; ++i)
      for (Index row = 0; row < rows; row += w) store(scores + (j + i) * width + row, Vec<T>{});
    for (Index row = 0; row < rows; ++row) {
      const auto products = count == w ? dots<T, true> : dots<T, false>;
      store(line, products(queries + row * padded<T>(size), keys + j * stride, stride, count, size));
      for (Index i = 0; i < count; ++i) scores[(j + i) * width + row] = line[i];
    }
  }
}

// out (rows, size rounded up) = out * factor[row] + weights (keys, width)^T @ values. A key with weight 0 is not read.
template <class T>
void decode_values(T* out, const T* factor, const T* weights, Index width, const T* values, Index stride, Index rows,
                   Index keys, Index size) {
  constexpr Index w = kLanes<T>;
  for (Index row = 0; row < rows; ++row) {
    T* y = out + row * padded<T>(size);
    const T* p = weights + row;
    Index i = 0;
    for (; i + 8 * w <= size; i += 8 * w) pool<T, 8>(y + i, factor[row], p, width, values + i, stride, keys);
    for (; i + 4 * w <= size; i += 4 * w) pool<T, 4>(y + i, factor[row], p, width, values + i, stride, keys);
    for (; i + 2 * w <= size; i += 2 * w) pool<T, 2>(y + i, factor[row], p, width, values + i, stride, keys);
    for (; i + w <= size; i += w) pool<T, 1>(y + i, factor[row], p, width, values + i, stride, keys);
    if (i == size) continue;
    Vec<T> sum = {};
    for (Index j = 0; j < keys; ++j)
      if (p[j * width] != 0) sum = fused(load_part(values + j * stride + i, size - i), splat<T>(p[j * width]), sum);
    store(y + i, fused(load(y + i), splat<T>(factor[row]), sum));
  }
}

}  // namespace qkv::kernels::QKV_ISA
