// Results of normalisers with a threshold: few keys have weight in a row, and only these are pooled.
#pragma once

#include <string.h>

#include "kernels/attention/candidates.h"
#include "kernels/attention/line_dropout.h"
#include "kernels/attention/tiles.h"

namespace qkv::kernels::QKV_ISA {

// Of the panels of a tile.
template <class T> class SparseRows {
 public:
  static Index elements(const AttentionProblem<T>& p) {
    return value_elements(p) + panels(p) * kMaxVectors * Candidates<T>::elements(p.keys);
  }
  SparseRows(T* memory, const AttentionProblem<T>& p)
      : problem_(p), values_(memory), lists_(memory + value_elements(p)) {}

  void start(Index panel, const RowBlock<T>& rows) {
    for (Index v = 0; v < rows.vectors; ++v) {
      const Index at = panel * kMaxVectors + v, size = Candidates<T>::elements(problem_.keys);
      of_[at].start(lists_ + at * size, problem_.keys, rows.rows - v * kLanes<T>);
    }
  }

  // The scores of a step of keys.
  void add(Index panel, const KeyStep& step, const T* scores, Index width) {
    with_threshold([&]<Normalizer normalizer>() {
      for (Index i = 0; i < step.count; ++i) {
        const StepPart& part = step.part[i];
        for (Index v = part.vector; v < part.vector + part.vectors; ++v)
          of_[panel * kMaxVectors + v].template add<normalizer>(scores + part.from * width + v * kLanes<T>, width,
                                                                step.key + part.from, part.keys_of[v]);
      }
    });
  }

  // Writes what the result asks for of a panel, whose output rows are `out`. `weights` and `pooled` are scratch.
  void finish(Index panel, const RowBlock<T>& rows, T* weights, T* pooled, T* const* out,
              const AttentionResult<T>& result) {
    Candidates<T>* of = of_ + panel * kMaxVectors;
    T* averages[kPanelWidth<T>];
    for (Index row = 0; row < rows.rows && result.averages.data != nullptr; ++row)
      averages[row] = result.averages.at(rows.batch, rows.head[row], rows.query[row]);
    with_threshold([&]<Normalizer normalizer>() {
      for (Index v = 0; v < rows.vectors; ++v) of[v].template finish<normalizer>();
      write_statistics(of, rows, result);
      if (result.weights.data != nullptr) write_weights<normalizer>(of, rows, result);
      if (problem_.value_size == 0) return;
      if (result.out.data != nullptr) pool<normalizer, false>(of, rows, weights, pooled, out);
      if (result.averages.data != nullptr) pool<normalizer, true>(of, rows, weights, pooled, averages);
    });
  }

 private:
  static Index value_elements(const AttentionProblem<T>& p) { return kBlockKeys * padded<T>(p.value_size); }
  static Index panels(const AttentionProblem<T>& p) {
    const Index rows = p.heads / p.kv_heads * p.queries;
    return at_most((rows + kPanelWidth<T> - 1) / kPanelWidth<T>, kMostPanels<T>);
  }
  template <class F> void with_threshold(F f) const {
    with_normalizer(problem_.normalizer, [&]<Normalizer normalizer>() {
      if constexpr (has_threshold(normalizer)) f.template operator()<normalizer>();
    });
  }

  // f(row, key, weight) for what is not 0, keys ascending for each row.
  template <Normalizer normalizer, class F>
  static void for_weights(const Candidates<T>* of, const RowBlock<T>& rows, F f) {
    for (Index v = 0; v < rows.vectors; ++v)
      for (Index at = 0; at < of[v].count; ++at) {
        const Vec<T> w = of[v].template weight<normalizer>(at);
        if (!any(w != Vec<T>{})) continue;
        for (Index i = 0; i < kLanes<T> && v * kLanes<T> + i < rows.rows; ++i)
          if (w[i] != 0) f(v * kLanes<T> + i, static_cast<Index>(of[v].keys[at]), w[i]);
      }
  }

  void write_statistics(const Candidates<T>* of, const RowBlock<T>& rows, const AttentionResult<T>& result) const {
    if (result.statistics == nullptr) return;
    for (Index row = 0; row < rows.rows; ++row) {
      T* to = result.statistics + 2 * problem_.row(rows.batch, rows.head[row], rows.query[row]);
      to[0] = of[row / kLanes<T>].largest[row % kLanes<T>];
      to[1] = of[row / kLanes<T>].offset[row % kLanes<T>];
    }
  }

  template <Normalizer normalizer>
  void write_weights(const Candidates<T>* of, const RowBlock<T>& rows, const AttentionResult<T>& result) const {
    T* to[kPanelWidth<T>];
    for (Index row = 0; row < rows.rows; ++row) {
      to[row] = result.weights.at(rows.batch, rows.head[row], rows.query[row], 0);
      memset(to[row], 0, sizeof(T) * problem_.keys);
    }
    for_weights<normalizer>(of, rows, [&](Index row, Index key, T w) { to[row][key] = w; });
  }

  // The values by weights, or averaged by their derivatives, to rows of results.
  template <Normalizer normalizer, bool averages>
  void pool(const Candidates<T>* of, const RowBlock<T>& rows, T* weights, T* pooled, T* const* to) const {
    const LineDropout<T> dropout(rows);
    for (Index v = 0; v < rows.vectors; ++v) {
      pool_vector<normalizer, averages>(of[v], rows, dropout, v, weights, pooled, multiply_transposed<T>);
      // A key without weight in a row may hold infinity or NaN.
      if (!finite_lines(pooled + v * kLanes<T>, problem_.value_size, rows.width, 1))
        pool_vector<normalizer, averages>(of[v], rows, dropout, v, weights, pooled, multiply_skipping<T>);
    }
    rows_from_columns<T>(to, pooled, rows.width, nullptr, rows.rows, problem_.value_size);
  }

  template <Normalizer normalizer, bool averages, class Multiply>
  void pool_vector(const Candidates<T>& of, const RowBlock<T>& rows, const LineDropout<T>& dropout, Index vector,
                   T* weights, T* pooled, Multiply multiply) const {
    const Index lane = vector * kLanes<T>, width = rows.width, size = problem_.value_size, stride = padded<T>(size);
    const Vec<T> zero = {}, inverse = averages ? of.template inverse_of_derivatives<normalizer>() : zero;
    StoreMode mode = StoreMode::overwrite;
    for (Index at = 0; at < of.count;) {
      Index n = 0;
      for (; at < of.count && n < kBlockKeys; ++at) {
        Vec<T> w = of.template weight<normalizer>(at);
        if constexpr (averages) w = Rule<normalizer>::template derivative<T>(w) * inverse;
        T* line = weights + n * width + lane;
        store(line, w);
        if (drops(problem_)) drop(line, rows, dropout, of.keys[at], lane);
        memcpy(values_ + n++ * stride, rows.value(of.keys[at]), sizeof(T) * size);
      }
      if (n == 0) break;
      multiply({mode, pooled + lane, width, nullptr, values_, stride, weights + lane, width, n}, size, 1, nullptr,
               nullptr);
      mode = StoreMode::resume;  // one sum, wherever the list is cut
    }
    if (mode == StoreMode::overwrite)
      for (Index i = 0; i < size; ++i) store(pooled + i * width + lane, zero);
  }

  // Dropout of one key's weights.
  void drop(T* line, const RowBlock<T>& rows, const LineDropout<T>& dropout, Index key, Index lane) const {
    const WeightsView<const bool>& keep = problem_.dropout.keep;
    if (keep.data == nullptr) return dropout.line(line, line, key, lane, kLanes<T>);
    for (Index i = 0; i < kLanes<T>; ++i)
      line[i] =
          *keep.at(rows.batch, rows.head[lane + i], rows.query[lane + i], key) ? line[i] * kept_factor(problem_) : 0;
  }

  const AttentionProblem<T>& problem_;
  T* values_;  // those that are pooled, side by side
  T* lists_;
  Candidates<T> of_[kMostPanels<T> * kMaxVectors];
};

}  // namespace qkv::kernels::QKV_ISA
