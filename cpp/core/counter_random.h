// A counter-based random stream: the word of an element depends only on a 64-bit key and on the element's
// position, so any thread may compute any block, and a backward pass finds the same words again.
//
// Everything here is integer arithmetic with internal linkage and without templates, so that a kernel compiled for
// any instruction set may include it. The loop over `column` has only 32-bit lanes.
#pragma once

#include <stdint.h>

namespace qkv {

// The two words that key one row of an attention matrix.
struct CounterRow {
  uint32_t first;
  uint32_t second;
};

// A bijection of 64 bits in which each input bit changes each output bit with probability about 1/2.
static inline uint64_t counter_mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// The row `query` of the matrix `matrix` (= batch * heads + head) under `key`.
static inline CounterRow counter_row(uint64_t key, uint64_t matrix, uint64_t query) {
  const uint64_t plane = counter_mix(key + counter_mix(matrix + 0x9e3779b97f4a7c15u));
  const uint64_t row = counter_mix(plane + counter_mix(query + 0xbf58476d1ce4e5b9u));
  return {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32)};
}

// The word of one column: for a given row a bijection of `column`, three multiplications.
static inline uint32_t counter_word(CounterRow row, uint32_t column) {
  uint32_t x = column + row.first;
  x = (x ^ (x >> 17)) * 0xed5ad4bbu;
  x ^= (x >> 11) ^ row.second;
  x *= 0xac4c1b51u;
  x = (x ^ (x >> 15)) * 0x31848babu;
  return x ^ (x >> 14);
}

// An element is dropped when its word is below the threshold; p in [0, 1]. The probability is exact to 2^-32,
// except that p = 1 leaves one word of 2^32: callers treat p = 1 apart.
static inline uint32_t counter_threshold(double p) {
  const double scaled = p * 4294967296.0 + 0.5;
  return scaled >= 4294967295.0 ? 0xffffffffu : static_cast<uint32_t>(scaled);
}

static inline bool counter_keep(CounterRow row, uint32_t column, uint32_t threshold) {
  return counter_word(row, column) >= threshold;
}

}  // namespace qkv
