// The gradient of the scores of one block of rows, for the backward pass alone.
#pragma once

#include "kernels/attention/normalizer.h"
#include "kernels/attention/query_tile.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {

// What the backward pass knows about a block of rows, one row per lane.
template <class T> struct GradientBlock {
  RowBlock<T> rows;
  // The saved statistics; a huge number and 0 after the last row.
  alignas(64) T base[kPanelWidth<T>];     // largest score
  alignas(64) T inverse[kPanelWidth<T>];  // 1 / sum of exp(score - base), or threshold - base
  alignas(64) T delta[kPanelWidth<T>];
  // Whether rows hold NaN or infinity and are left out, because no gradient reaches them: their query reads as 0, and
  // their weights are 0, even if the keys hold NaN.
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
    factors = tiles.place(panels + panel_elements(p) * count, formula_scratch(p), queue);
    tiles.second = factors + kTileElements<T>;
    rest = tiles.second + kTileElements<T>;
    use(0);
  }
  // Panel i's memory. The tiles of all panels lie one after the other, kTileElements apart.
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

// The largest score of lanes after the last row: exp(score - it) = 0.
template <class T> constexpr T kBehind = static_cast<T>(1e38);

// Whether a row of the results has a gradient.
template <class T>
bool has_gradient(const AttentionSaved<T>& saved, const AttentionProblem<T>& p, Index batch, Index head, Index query) {
  const T* dout = saved.dout.at(batch, head, query);
  for (Index i = 0; i < p.value_size; ++i)
    if (dout[i] != 0) return true;
  if (saved.dlse != nullptr && saved.dlse[p.row(batch, head, query)] != 0) return true;
  if (saved.dweights.data != nullptr)
    for (Index j = 0; j < p.keys; ++j)
      if (*saved.dweights.at(batch, head, query, j) != 0) return true;
  return false;
}

// Leaves out the rows that hold NaN or infinity and have no gradient: 0 * NaN would reach all keys. So do rows without
// a key. What their results were says nothing here, since values can be NaN where queries are not.
template <class T>
void leave_out_rows(GradientBlock<T>& block, GradientScratch<T>& scratch, const AttentionSaved<T>& saved) {
  const RowBlock<T>& rows = block.rows;
  const AttentionProblem<T>& p = *rows.problem;
  for (Index lane = 0; lane < rows.rows; ++lane) {
    const bool empty = block.base[lane] == 0 && block.inverse[lane] == 0;
    if (!empty && has_gradient(saved, p, rows.batch, rows.head[lane], rows.query[lane])) continue;
    block.left_out = true;
    block.base[lane] = kBehind<T>;
    block.inverse[lane] = block.delta[lane] = 0;
    T* query = scratch.queries + lane * (rows.is_decode() ? padded<T>(p.key_size) : 1);
    for (Index i = 0; i < p.key_size; ++i) query[i * (rows.is_decode() ? 1 : rows.width)] = 0;
  }
}

// Completes a block whose rows are set (set_rows): statistics, delta, queries and dout. delta may be null.
template <class T>
void load_gradient_rows(GradientBlock<T>& block, GradientScratch<T>& scratch, const T* delta,
                        const AttentionSaved<T>& saved) {
  const RowBlock<T>& rows = block.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index batch = rows.batch;
  const T* dout[kPanelWidth<T>];
  for (Index lane = 0; lane < rows.width; ++lane) {
    const Index row = p.row(batch, rows.head[lane], rows.query[lane]);
    const bool real = lane < rows.rows;
    block.base[lane] = real ? saved.statistics[2 * row] : kBehind<T>;
    block.inverse[lane] = real ? saved.statistics[2 * row + 1] : T(0);
    block.delta[lane] = delta != nullptr ? delta[row] : T(0);
    dout[lane] = saved.dout.at(batch, rows.head[lane], rows.query[lane]);
  }
  load_queries(scratch.queries, rows);
  columns_from_rows(scratch.dout, rows.width, dout, rows.width, rows.rows, p.value_size);
  block.left_out = false;
  if (!finite_features(scratch.queries, rows, p.key_size) || !finite(block.delta, rows.width))
    leave_out_rows(block, scratch, saved);
}

// tiles.scores = weights of keys [key, key + n), of which the step says where they can differ from 0.
template <class T>
void block_weights(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block, Index key, Index n) {
  const Index width = block.rows.width;
  T* weights = scratch.tiles.scores;
  for (int nan_safe = 0; nan_safe < 2; ++nan_safe) {
    block_scores(scratch.tiles, step, block.rows, scratch.queries, key, n, nan_safe != 0);
    zero_outside(weights, step, block.rows);
    for (Index i = 0; i < step.count; ++i) {
      const StepPart& part = step.part[i];
      for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
        const Vec<T> base = load(block.base + v * kLanes<T>), inverse = load(block.inverse + v * kLanes<T>);
        T* scores = weights + part.from * width + v * kLanes<T>;
        with_normalizer(block.rows.problem->normalizer, [&]<Normalizer normalizer>() {
          if constexpr (normalizer == Normalizer::softmax)
            each_weight<T>(scores, width, part.keys_of[v], base,
                           [&](T* at, Vec<T> w, Index) { store(at, w * inverse); });
          else
            each_own_weight<normalizer, T>(scores, width, part.keys_of[v], base, inverse,
                                           [](T* at, Vec<T> w) { store(at, w); });
        });
      }
    }
    if (block.left_out)
      for (Index i = 0; i < n * width; ++i)
        if (block.inverse[i % width] == 0) weights[i] = 0;
    if (!nan_safe_differs(*block.rows.problem) || finite_lines(weights, n, width, block.rows.vectors)) return;
  }
}

// tile (n, width) = dweights of keys [key, key + n); 0 after the last row.
template <class T>
void load_dweights(T* tile, const RowBlock<T>& rows, const AttentionSaved<T>& saved, Index key, Index n) {
  const T* lines[kPanelWidth<T>];
  for (Index lane = 0; lane < rows.rows; ++lane)
    lines[lane] = saved.dweights.at(rows.batch, rows.head[lane], rows.query[lane], key);
  columns_from_rows(tile, rows.width, lines, rows.width, rows.rows, n);
}

// Leaves out keys without any weight from both ends of the parts.
template <class T> void narrow_by_weights(KeyStep& step, const T* weights, Index width) {
  Index left = 0;
  for (Index i = 0; i < step.count; ++i) {
    StepPart part = step.part[i];
    const Index from = part.from;
    const auto has_weight = [&](Index j) {
      const T* line = weights + j * width + part.vector * kLanes<T>;
      for (Index v = 0; v < part.vectors; ++v)
        if (any(load(line + v * kLanes<T>) != Vec<T>{})) return true;
      return false;
    };
    narrow(part, has_weight);
    for (Index& keys : part.keys_of) keys = clamped(from + keys - part.from, 0, part.keys());
    if (part.from < part.to) step.part[left++] = part;
  }
  step.count = left;
}

// tiles.scores = weights after dropout, dscores = derivatives * (dweights - delta) where dweights includes dout . value
// and the derivatives of softmax are the weights. It is exactly 0 where the weight is 0 or the score was filled.
template <class T>
void score_gradient(GradientScratch<T>& scratch, KeyStep& step, const GradientBlock<T>& block,
                    const AttentionSaved<T>& saved, Index key, Index n) {
  const RowBlock<T>& rows = block.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width, count = n * width;
  const Vec<T> zero = {};
  T* weights = scratch.tiles.scores;
  T* dscores = scratch.dscores;
  T* factors = scratch.factors;
  block_weights(scratch, step, block, key, n);
  // Not where sums over keys must begin at the same place for all rows.
  if (facts_of(p.normalizer).zeros && !p.fill && !p.reproducible) narrow_by_weights(step, weights, width);
  zero_outside(dscores, step, rows);
  for (Index i = 0; i < step.count; ++i)
    multiply_part(StoreMode::overwrite, dscores, rows.value(key), p.value.position, scratch.dout, width, p.value_size,
                  step.part[i], scratch.tiles);
  const bool dropped = drops(p);
  if (dropped) {
    for (Index i = 0; i < count; i += kLanes<T>) store(factors + i, splat<T>(1));
    block_dropout(factors, factors, reinterpret_cast<uint8_t*>(scratch.tiles.scratch), rows, key, n);
    for (Index i = 0; i < count; i += kLanes<T>) store(dscores + i, load(dscores + i) * load(factors + i));
  }
  if (saved.dweights.data != nullptr) {
    load_dweights(scratch.tiles.scratch, rows, saved, key, n);
    for (Index i = 0; i < count; i += kLanes<T>)
      store(dscores + i, load(dscores + i) + load(scratch.tiles.scratch + i));
  }
  with_normalizer(p.normalizer, [&]<Normalizer normalizer>() {
    for (Index lane = 0; lane < width; lane += kLanes<T>) {
      const Vec<T> delta = load(block.delta + lane);
      for (Index i = lane; i < count; i += width) {
        const Vec<T> w = load(weights + i);
        store(dscores + i,
              select(w == zero, zero, Rule<normalizer>::template derivative<T>(w) * (load(dscores + i) - delta)));
      }
    }
  });
  if (p.fill) {  // then there is one part, the whole tile
    const uint8_t* allowed = scratch.tiles.allowed;
    for (Index i = 0; step.part[0].masked && i < count; ++i)
      if (!allowed[i]) dscores[i] = 0;
  }
  if (dropped)
    for (Index i = 0; i < count; i += kLanes<T>) store(weights + i, load(weights + i) * load(factors + i));
}

// dscores, the gradient of scores as a formula left them, becomes that of those before it. The gradients of the
// formula's leaves are added to dleaves, or left out if that is null.
template <class T>
void formula_gradient(GradientScratch<T>& scratch, const KeyStep& step, const RowBlock<T>& rows, Index key, Index n,
                      const LeafGradient<T>* dleaves) {
  if (rows.problem->formula == nullptr) return;
  const Formula<T>& f = *rows.problem->formula;
  const FormulaTiles<T> tiles = {scratch.tiles.second, scratch.dscores, scratch.tiles.formula, nullptr};
  const auto run = [&](Index begin, Index end) {
    for (Index i = 0; i < step.count; ++i) {
      // Sums of leaves' gradients are made of 64 bytes of queries at a time, at every level.
      const StepPart& part = step.part[i];
      const Index together = dleaves != nullptr ? kParts : part.vectors;
      for (Index v = 0; v < part.vectors; v += together) {
        StepPart some = part;
        some.vector += v;
        some.vectors = at_most(together, part.vectors - v);
        run_formula(f.gradient, begin, end, tiles, some, rows, key, dleaves);
      }
    }
  };
  run(0, f.gradient.first);
  if (!f.keeps_scores && f.derived.count > 0)
    put_gradients<T>(scratch.dscores, scratch.dscores, tiles.scores, n * rows.width, [](Vec<T> d) { return d; });
  run(f.gradient.first, f.gradient.count);
}

}  // namespace qkv::kernels::QKV_ISA
