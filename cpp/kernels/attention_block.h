// A block of query rows and its scores. Internal to attention*.cpp.
#pragma once

#include "kernels/attention.h"
#include "kernels/attention_tiles.h"

namespace qkv::kernels::QKV_ISA {

// Query rows that are computed together, one per lane. Rows may belong to several heads that share keys and values.
// Lanes behind the last row repeat it where indices are concerned and are 0 where numbers are.
template <class T> struct RowBlock {
  const AttentionProblem<T>* problem;
  Index batch, kv_head;
  Index rows, vectors, width;  // real rows; vectors of lanes; lanes
  Index head[kBlockRows<T>], query[kBlockRows<T>];
  Index position[kBlockRows<T>];  // of the query: q_offset + i
  // Keys that causal order, window and lengths leave to each row: [low, high), empty if low == high.
  Index low[kBlockRows<T>], high[kBlockRows<T>];
  // For the rows of each vector: the union of these and their intersection.
  Index any_low[kMaxVectors], any_high[kMaxVectors], all_low[kMaxVectors], all_high[kMaxVectors];
  Index first, last;  // keys to visit: the union for all rows, all keys if excluded ones are filled
  bool same_head;     // all rows belong to one head
  Index next;         // queries from these rows to those of the block that comes next, if known, else 0
  // Blocks of at most this many rows read keys and values feature by feature (attention_few.cpp).
  static constexpr Index kFew = 4;
  bool few() const { return rows <= kFew && !problem->uniform; }
  // Keys of a step. Of uniform rows all steps are equal and begin at multiples of it, whatever keys the others see.
  Index step() const { return problem->uniform ? kBlockKeys : key_step(last - first); }

  const T* key(Index j) const { return problem->key.at(batch, kv_head, j); }
  const T* value(Index j) const { return problem->value.at(batch, kv_head, j); }
};

template <class T>
void set_rows(RowBlock<T>& block, const AttentionProblem<T>& problem, Index batch, Index kv_head, Index begin,
              Index end);

// Copies of one head's keys and values as contiguous rows. Rows of (B, L, H * D) lie H * D apart, which for usual sizes
// maps them onto a few sets of the caches: they would be fetched from far away for each block of queries.
template <class T> struct PackedKeys {
  AttentionProblem<T> problem;  // as given, but with the copies' strides
  Index from = 0, to = 0;       // keys [from, to) have been copied

  // Whether copying is needed at all.
  static bool wanted(const AttentionProblem<T>& p) {
    return (p.key.position != p.key_size || p.value.position != p.value_size) && p.queries > 4;
  }
  static Index elements(const AttentionProblem<T>& p) {
    return wanted(p) ? p.keys * padded<T>(p.key_size + p.value_size) : 0;
  }
  // `memory` may be null if not wanted.
  PackedKeys(const AttentionProblem<T>& p, Index batch, Index kv_head, T* memory);
  // Makes keys [first, last) available.
  void include(Index first, Index last);

 private:
  const T* key_ = nullptr;
  const T* value_ = nullptr;
  Index key_stride_ = 0, value_stride_ = 0;
  void copy(Index first, Index last);
};

// queries (D, width) = the rows' queries times scale; for few rows (rows, D rounded up to vectors).
template <class T> void load_queries(T* queries, const RowBlock<T>& block);

// Makes `ahead` the queries of the next block.
template <class T> void fetch_queries(LinesAhead& ahead, const RowBlock<T>& block) {
  const AttentionProblem<T>& p = *block.problem;
  ahead.clear();
  if (block.next == 0) return;
  for (Index row = 0; row < block.rows; ++row)
    ahead.add(p.query.at(block.batch, block.head[row], block.query[row] + block.next),
              p.key_size * static_cast<Index>(sizeof(T)));
}

// scores (n, width) of few rows, 0 behind them; queries as load_queries leaves them.
template <class T>
void few_scores(T* scores, Index width, const T* queries, const T* keys, Index stride, Index rows, Index n, Index size);
// out (rows, size rounded up) = out * factor[row] + weights (keys, width)^T @ values. A key with weight 0 is not read.
template <class T>
void few_values(T* out, const T* factor, const T* weights, Index width, const T* values, Index stride, Index rows,
                Index keys, Index size);

// Neighbouring vectors of rows and the keys [from, to) of a step that their rows may see.
struct StepPart {
  Index vector, vectors;
  Index from, to;
  bool masked;  // some of these pairs are excluded
  Index keys() const { return to - from; }
};

// A step of keys [key, key + n), n <= kBlockKeys. Pairs that are in no part are excluded.
struct KeyStep {
  Index key, n;
  Index count;
  StepPart part[kMaxVectors];
  // Whether the parts are all pairs.
  bool whole(Index vectors) const { return count == 1 && part[0].vectors == vectors && part[0].keys() == n; }
};

// Tiles (keys, width) of one step of keys.
template <class T> struct ScoreTiles {
  T* scores;          // final scores, -inf where excluded; nothing outside the parts
  T* slope;           // with softcap, if not null: derivative of the softcap
  T* scratch;         // for the bias
  LinesAhead* ahead;  // what is fetched meanwhile
  uint8_t* allowed;   // of parts that are masked, unless limits_only: not 0 where the pair is allowed
};

// Elements of T in one tile.
template <class T> constexpr Index kTileElements = kBlockKeys * kBlockRows<T>;

// Whether pairs are excluded by nothing but the limits of rows (and by a bias of -inf, which does so by itself).
template <class T> inline bool limits_only(const AttentionProblem<T>& p) { return p.mask.data == nullptr && !p.fill; }

// Sets the parts of a step, and `allowed` of those that need it.
template <class T> void set_step(KeyStep& step, uint8_t* allowed, const RowBlock<T>& block, Index key, Index n);

// to[j * width + lane] = pair (row `lane`, key + j) of a boolean array, for the pairs of a part.
template <class T>
void bytes_from_rows(uint8_t* to, const WeightsView<const bool>& rows, const RowBlock<T>& block, const StepPart& part,
                     Index key);

// Scores of the step that starts at `key`; queries as load_queries leaves them. Where a bias of -inf meets a score that
// is not a number, only `careful` gives -inf, the other way NaN.
template <class T>
void block_scores(ScoreTiles<T>& tiles, KeyStep& step, const RowBlock<T>& block, const T* queries, Index key, Index n,
                  bool careful);
// Whether `careful` can make a difference.
template <class T> inline bool care_matters(const AttentionProblem<T>& p) { return p.bias.data != nullptr; }

// to[j][row] = weights[j][row] times 1 / (1 - p) or 0, by the stream or dropout_keep, for all pairs of a step. p = 1
// gives zeros. `bytes` is a tile of scratch.
template <class T>
void block_dropout(T* to, const T* weights, uint8_t* bytes, const RowBlock<T>& block, Index key, Index n);

// tile = 0 outside the parts of the step.
template <class T> void zero_outside(T* tile, const KeyStep& step, const RowBlock<T>& block);

// Whether all of n numbers (a multiple of kLanes) are finite.
template <class T> inline bool finite(const T* x, Index n) {
  Vec<T> zero = {};
  for (Index i = 0; i < n; i += kLanes<T>) zero += load(x + i) * Vec<T>{};
  return !any(zero != zero);
}

template <class T> inline bool drops(const AttentionProblem<T>& p) {
  return p.dropout > 0 || p.dropout_keep.data != nullptr;
}

// Fill in the entries of the backward pass.
template <class T> void set_backward_kernels(Attention<T>& table);
template <class T> void set_bias_gradient_kernel(Attention<T>& table);
template <class T> void set_small_kernel(Attention<T>& table);

}  // namespace qkv::kernels::QKV_ISA
