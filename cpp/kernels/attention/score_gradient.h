// The gradient of the scores of one block of rows. Internal to this folder.
#pragma once

#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

// What the backward pass knows about a block of rows, one row per lane.
template <class T> struct GradientBlock {
  RowBlock<T> rows;
  // The saved statistics; a huge number and 0 behind the last row.
  alignas(64) T base[kPanelWidth<T>];     // largest score
  alignas(64) T inverse[kPanelWidth<T>];  // 1 / sum of exp(score - base), or threshold - base
  alignas(64) T delta[kPanelWidth<T>];
  // Whether rows hold NaN or infinity and are left out, because no gradient reaches them: their query reads as 0, and
  // their weights are 0 whatever the keys hold.
  bool left_out;
};

// Scratch of the backward pass: of several panels, of which one is in use, and of what is needed for one at a time.
template <class T> struct GradientScratch {
  T* panels;   // for each what follows up to tiles.scores, then tiles of all panels
  T* queries;  // as load_queries leaves them
  T* dout;     // (Dv, width)
  T* dquery;   // (D, width)
  ScoreTiles<T> tiles;
  T* dscores;  // (keys, width): gradient of the score
  T* factors;  // (keys, width): dropout's 1 / (1 - p) or 0; also dweights
  T* rest;     // what the caller may use
  PrefetchQueue queue;

  GradientScratch(T* memory, const AttentionProblem<T>& p, Index count)
      : panels(memory), key_lines_(padded<T>(p.key_size)), value_lines_(p.value_size), count_(count) {
    const Index tile = kTileElements<T>;
    T* shared = panels + panel_elements(p) * count;
    tiles.scratch = shared;
    tiles.allowed = reinterpret_cast<uint8_t*>(shared + tile);
    factors = shared + 2 * tile;
    tiles.second = shared + 3 * tile;
    tiles.formula = shared + 4 * tile;
    rest = tiles.formula + formula_scratch(p);
    tiles.queue = &queue;
    queue.clear();
    use(0);
  }
  // Panel i's memory. The tiles of all panels lie one behind the other, kTileElements apart.
  void use(Index i) {
    const Index lines = 2 * key_lines_ + value_lines_;
    queries = panels + i * lines * kPanelWidth<T>;
    dout = queries + key_lines_ * kPanelWidth<T>;
    dquery = dout + value_lines_ * kPanelWidth<T>;
    tiles.scores = panels + count_ * lines * kPanelWidth<T> + i * kTileElements<T>;
    dscores = tiles.scores + count_ * kTileElements<T>;
    tiles.cold = i == 0;
  }
  static Index elements(const AttentionProblem<T>& p, Index count) {
    return panel_elements(p) * count + 4 * kTileElements<T> + formula_scratch(p);
  }

 private:
  Index key_lines_, value_lines_, count_;
  static Index panel_elements(const AttentionProblem<T>& p) {
    return (2 * padded<T>(p.key_size) + p.value_size) * kPanelWidth<T> + 2 * kTileElements<T>;
  }
};

// Whether a row of the results has a gradient.
template <class T>
bool has_gradient(const AttentionSaved<T>& saved, const AttentionProblem<T>& problem, Index batch, Index head,
                  Index query);

// Completes a block whose rows are set (set_rows): statistics, delta, queries and dout. delta may be null.
template <class T>
void load_gradient_rows(GradientBlock<T>& block, GradientScratch<T>& scratch, const T* delta,
                        const AttentionSaved<T>& saved);

// tiles.scores = weights of keys [key, key + n), of which the step says where they can differ from 0.
template <class T>
void block_weights(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block, Index key, Index n);

// tiles.scores = weights after dropout, dscores = derivatives * (dweights - delta) where dweights includes dout . value
// and the derivatives of softmax are the weights.
// It is exactly 0 where the weight is 0 or the score was filled.
template <class T>
void score_gradient(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block,
                    const AttentionSaved<T>& saved, Index key, Index n);

// dscores, the gradient of scores as a formula left them, becomes that of those before it. The gradients of the
// formula's leaves are added to dleaves, or left out if that is null.
template <class T>
void formula_gradient(GradientScratch<T>& scratch, const KeyStep& step, const RowBlock<T>& rows, Index key, Index n,
                      const LeafGradient<T>* dleaves);

// tile (n, width) = dweights of keys [key, key + n); 0 behind the last row.
template <class T>
void load_dweights(T* tile, const RowBlock<T>& rows, const AttentionSaved<T>& saved, Index key, Index n);

}  // namespace qkv::kernels::QKV_ISA
