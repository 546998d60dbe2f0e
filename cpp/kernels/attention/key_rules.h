// Which keys a query may attend to by its position: causal order, windows and lengths. All of qkv that computes asks
// here; qkv.reference states the same rules once more, independently.
//
// Functions have internal linkage and no templates, so that a kernel for any instruction set may include this.
#pragma once

#include <stdint.h>

#include "core/index.h"

namespace qkv::kernels {

// Query i of batch entry b is at p = q_offset[b] + i. Key j is allowed if all of these allow it.
struct KeyRules {
  bool causal = false;                     // j <= p
  Index left = -1, right = -1;             // p - left <= j <= p + right (window); -1: unlimited
  const int64_t* q_offset = nullptr;       // (B), or null for 0; may be negative
  const int64_t* valid_lens = nullptr;     // j < valid_lens, 0..Lk; or null
  Index valid_batch = 0, valid_query = 0;  // strides of valid_lens; (B): 1, 0; (B, Lq): Lq, 1
  [[gnu::always_inline]] bool operator==(const KeyRules&) const = default;
};

// Keys [low, high), 0 <= low <= high.
struct KeyRange {
  Index low, high;
};

static inline Index at_least(Index n, Index low) { return n < low ? low : n; }
static inline Index at_most(Index n, Index high) { return n > high ? high : n; }
static inline Index clamped(Index n, Index low, Index high) { return n < low ? low : at_most(n, high); }

constexpr Index kFar = Index{1} << 60;  // farther than any key; kFar + kFar does not overflow

static inline Index query_position(const KeyRules& rules, Index batch, Index query) {
  const Index offset = rules.q_offset != nullptr ? static_cast<Index>(rules.q_offset[batch]) : 0;
  return clamped(offset, -kFar, kFar) + query;
}

// How many keys after its position a query may see: none in causal order, with any window; -1: unlimited.
static inline Index keys_ahead(const KeyRules& rules) { return rules.causal ? 0 : rules.right; }

// Of the keys [0, length) those for a query at a position. Both limits grow with the position.
static inline KeyRange keys_at(const KeyRules& rules, Index position, Index length) {
  Index low = 0, high = length;
  if (rules.left >= 0) low = at_least(low, position - at_most(rules.left, kFar));
  if (keys_ahead(rules) >= 0) high = at_most(high, position + at_most(keys_ahead(rules), kFar) + 1);
  high = at_least(high, 0);
  return {at_most(low, high), high};
}

// Of so many keys those that valid_lens leaves to a query.
static inline Index length_of(const KeyRules& rules, Index batch, Index query, Index keys) {
  if (rules.valid_lens == nullptr) return keys;
  return static_cast<Index>(rules.valid_lens[batch * rules.valid_batch + query * rules.valid_query]);
}

static inline KeyRange keys_of(const KeyRules& rules, Index batch, Index query, Index keys) {
  return keys_at(rules, query_position(rules, batch, query), length_of(rules, batch, query, keys));
}

// Whether queries of one batch entry may see different keys.
static inline bool differ_by_query(const KeyRules& rules) {
  return rules.left >= 0 || keys_ahead(rules) >= 0 || (rules.valid_lens != nullptr && rules.valid_query != 0);
}

}  // namespace qkv::kernels
