// Additive attention: scores w . tanh(q_i + k_j) for all pairs, without storing anything of size (Lq, Lk, M).
//
// tanh(q + k) = 1 - 2 / (1 + E) with E = exp(2 q) exp(2 k): the exponentials are taken once per row and a pair costs
// one multiply-add, and one division for every four numbers, since four fractions are brought to a common denominator.
// Error of a tanh: some 2 ULP of 1, at any size (the scores are sums of many).
#pragma once

#include "core/index.h"

namespace qkv::kernels {

// Length of a prepared row: whole vectors of every level, and an odd number of cache lines so that neighbouring rows do
// not compete for the same places of the cache. What is after the features is never used: it has weight 0.
static constexpr Index additive_stride(Index features) { return (features + 31) / 32 * 32 + 16; }

template <class T> struct Additive {
  // e (rows, stride) = exp(2 x). moderate[row]: whether products of these exponentials stay
  // in range, that is |x| <= 40 (double: 300); false for NaN. Rows that are not moderate need `pair`.
  void (*prepare)(T* e, bool* moderate, const T* x, Index rows, Index features, Index stride);
  // e (stride) = exp(2 (x + y)) for two rows that need not be moderate.
  void (*pair)(T* e, const T* x, const T* y, Index features);
  // s[i * ld + j] for prepared rows a (rows, stride), b (keys, stride); weight (stride), zeros after the features.
  void (*scores)(T* s, Index ld, const T* a, const T* b, const T* weight, Index rows, Index keys, Index features,
                 Index stride);
  // s[j] for one query row and `keys` key rows as they are (all of `features`), one tanh for each pair: where a key
  // meets one query alone, preparing it does not pay.
  void (*direct)(T* s, const T* query, const T* key, const T* weight, Index keys, Index features);
  // One query row against `count` key rows with score gradients g[0 .. count): with r = 1 / (1 + E), adds
  // g r to dr, and g E r^2, the derivative of tanh over 4, to dq and to dk[n]. All rows (stride).
  void (*backward)(T* dq, T* dr, T* const* dk, const T* g, const T* a, const T* const* b, Index count, Index features);
};

}  // namespace qkv::kernels
