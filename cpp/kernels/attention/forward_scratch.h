// What the forward pass keeps in memory while a tile of queries is on its way through the keys.
#pragma once

#include "kernels/attention/panel.h"
#include "kernels/attention/sparse_rows.h"
#include "kernels/attention/values.h"

namespace qkv::kernels::QKV_ISA {

// A step of keys whose weights are kept until the sums are known.
template <class T> struct KeptStep {
  KeyStep parts;
  T largest[kPanelWidth<T>];  // scores so far
  T factor[kPanelWidth<T>];   // as in OnlineSoftmax
};

template <class T> struct ForwardScratch {
  T* panels;  // for each queries, out and scores
  ScoreTiles<T> tiles;
  T* kept;             // (keys, width): exp(score - largest so far), if the weights are wanted, else null
  KeptStep<T>* steps;  // if the weights are wanted
  T* sparse;           // SparseRows, of a normaliser with a threshold
  PrefetchQueue queue;
  ValueKinds<T> values;

  static Index panel_elements(const AttentionProblem<T>& p) {
    return (padded<T>(p.key_size) + padded<T>(p.value_size)) * kPanelWidth<T> + kTileElements<T>;
  }
  static Index step_elements(const AttentionProblem<T>& p) {
    return (p.keys / key_step(p) + 1) * static_cast<Index>(sizeof(KeptStep<T>) / sizeof(T));
  }
  ForwardScratch(T* memory, const AttentionResult<T>& result, const AttentionProblem<T>& p) {
    const bool weights = keeps_weights(result, p);
    panels = memory;
    tiles.second = nullptr;
    T* rest = tiles.place(panels + panel_elements(p) * panels_of(weights), formula_scratch(p), queue);
    kept = weights ? rest : nullptr;
    steps = weights ? reinterpret_cast<KeptStep<T>*>(rest + (p.keys + kBlockKeys) * kPanelWidth<T>) : nullptr;
    sparse = rest;
  }
  static Index elements(const AttentionResult<T>& result, const AttentionProblem<T>& p) {
    const bool weights = keeps_weights(result, p);
    const Index before = panel_elements(p) * panels_of(weights) + 2 * kTileElements<T> + formula_scratch(p);
    if (has_threshold(p.normalizer)) return before + SparseRows<T>::elements(p);
    return before + (weights ? step_elements(p) + (p.keys + kBlockKeys) * kPanelWidth<T> : 0);
  }
  static bool keeps_weights(const AttentionResult<T>& result, const AttentionProblem<T>& p) {
    return result.weights.data != nullptr && !has_threshold(p.normalizer);
  }
  // Panels per pass. Kept weights are large: then it is one.
  static Index panels_of(bool weights) { return weights ? 1 : kMostPanels<T>; }

  void point(Panel<T>& panel, Index i, const AttentionProblem<T>& p) const {
    panel.queries = panels + i * panel_elements(p);
    panel.out = panel.queries + padded<T>(p.key_size) * kPanelWidth<T>;
    panel.scores = panel.out + padded<T>(p.value_size) * kPanelWidth<T>;
  }
  T* kept_tile(Index key, const RowBlock<T>& rows) const { return kept + (key - rows.first) * rows.width; }
};

}  // namespace qkv::kernels::QKV_ISA
