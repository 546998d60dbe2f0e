// The gradient of the scores of one block of rows. Internal to attention*.cpp.
#pragma once

#include "kernels/attention_block.h"

namespace qkv::kernels::QKV_ISA {

// What the backward pass knows about a block of rows, one row per lane.
template <class T> struct GradientBlock {
  RowBlock<T> rows;
  alignas(64) T base[kBlockRows<T>];     // largest score; a huge number behind the last row
  alignas(64) T inverse[kBlockRows<T>];  // 1 / sum of exp(score - base); 0 behind the last row
  alignas(64) T shift[kBlockRows<T>];
  // Whether rows hold NaN or infinity and are left out, because no gradient reaches them: their query reads as 0, and
  // their weights are 0 whatever the keys hold.
  bool left_out;
};

// Scratch of the backward pass.
template <class T> struct GradientScratch {
  T* queries;  // as load_queries leaves them
  T* dout;     // (Dv, width)
  ScoreTiles<T> tiles;
  T* dscores;  // (keys, width): gradient of the score before mask, bias and distance are added
  T* factors;  // (keys, width): dropout's 1 / (1 - p) or 0; also dweights
  T* rest;     // what the caller may use
  LinesAhead ahead;

  GradientScratch(T* memory, const AttentionProblem<T>& p) {
    const Index tile = kTileElements<T>;
    queries = memory;
    dout = queries + padded<T>(p.key_size) * kBlockRows<T>;
    tiles.scores = dout + p.value_size * kBlockRows<T>;
    tiles.scratch = tiles.scores + tile;
    tiles.allowed = reinterpret_cast<uint8_t*>(tiles.scratch + tile);
    tiles.slope = tiles.scratch + 2 * tile;
    tiles.ahead = &ahead;
    dscores = tiles.scratch + 3 * tile;
    factors = tiles.scratch + 4 * tile;
    rest = tiles.scratch + 5 * tile;
  }
  static Index elements(const AttentionProblem<T>& p) {
    return (padded<T>(p.key_size) + p.value_size) * kBlockRows<T> + 6 * kTileElements<T>;
  }
};

// Whether a row of the results has a gradient.
template <class T>
bool has_gradient(const AttentionSaved<T>& saved, const AttentionProblem<T>& problem, Index batch, Index head,
                  Index query);

// Completes a block whose rows are set (set_rows): statistics, shift, queries and dout. shift may be null.
template <class T>
void load_gradient_rows(GradientBlock<T>& block, GradientScratch<T>& scratch, const T* shift,
                        const AttentionSaved<T>& saved);

// tiles.scores = weights of keys [key, key + n), of which the step says where they can differ from 0.
template <class T>
void block_weights(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block, Index key, Index n);

// tiles.scores = weights after dropout, dscores = weights * (dweights - shift) where dweights includes dout . value.
// It is exactly 0 where the weight is 0 or the score was filled.
template <class T>
void score_gradient(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block,
                    const AttentionSaved<T>& saved, Index key, Index n);

// tile (n, width) = dweights of keys [key, key + n); 0 behind the last row.
template <class T>
void load_dweights(T* tile, const RowBlock<T>& rows, const AttentionSaved<T>& saved, Index key, Index n);

}  // namespace qkv::kernels::QKV_ISA
