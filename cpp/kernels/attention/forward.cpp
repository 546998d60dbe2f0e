// The forward pass of attention and its weights.
#include "kernels/attention/problem.h"

#include "kernels/attention/columns.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/attention/query_tile.h"
#include "kernels/simd/stream.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// A step of keys whose weights are kept until the sums are known.
template <class T> struct KeptStep {
  KeyStep parts;
  T largest[kPanelWidth<T>];  // scores so far
  T factor[kPanelWidth<T>];   // as in OnlineSoftmax
};

// A panel on its way through the keys.
template <class T> struct Panel {
  RowBlock<T> rows;
  OnlineSoftmax<T> softmax;
  KeyStep step;
  bool begun[kMaxVectors];  // whether out holds anything yet
  T* queries;               // (D, width), times scale
  T* out;                   // (Dv, width), not yet divided by the sum; for few rows (rows, Dv rounded up to vectors)
  T* scores;                // (keys of a step, width)

  void start() {
    const T* sinks = rows.problem->sinks;
    for (Index lane = 0; lane < rows.width; ++lane) {
      softmax.largest[lane] = sinks != nullptr ? sinks[rows.head[lane]] : static_cast<T>(-INFINITY);
      softmax.sum[lane] = softmax.largest[lane] > static_cast<T>(-INFINITY) ? T(1) : T(0);
    }
    for (bool& b : begun) b = false;
    if (rows.is_decode()) memset(out, 0, sizeof(T) * padded<T>(rows.problem->value_size) * rows.rows);
  }
  void zero_out(Index vector) {
    for (Index i = 0; i < rows.problem->value_size; ++i) store(out + i * rows.width + vector * kLanes<T>, Vec<T>{});
    begun[vector] = true;
  }
  // Whether a part's first product may replace what stands in out; if only for some of its vectors, these become 0.
  StoreMode begin(const StepPart& part) {
    Index new_ones = 0;
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) new_ones += !begun[v];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      if (!begun[v] && new_ones < part.vectors) zero_out(v);
      begun[v] = true;
    }
    return new_ones == part.vectors ? StoreMode::overwrite : StoreMode::rescale;
  }
  void finish() {
    softmax.finish(rows.width);
    if (rows.is_decode()) return;
    for (Index v = 0; v < rows.vectors; ++v)
      if (!begun[v]) zero_out(v);
  }
};

template <class T> struct ForwardScratch {
  T* panels;  // for each queries, out and scores
  ScoreTiles<T> tiles;
  T* kept;             // (keys, width): exp(score - largest so far), if the weights are wanted, else null
  KeptStep<T>* steps;  // if the weights are wanted
  T* columns;          // for each panel its ColumnParts
  PrefetchQueue queue;

  static Index panel_elements(const AttentionProblem<T>& p) {
    return (padded<T>(p.key_size) + padded<T>(p.value_size)) * kPanelWidth<T> + kTileElements<T>;
  }
  static Index step_elements(const AttentionProblem<T>& p) {
    return (p.keys / key_step(p) + 1) * static_cast<Index>(sizeof(KeptStep<T>) / sizeof(T));
  }
  ForwardScratch(T* memory, const AttentionResult<T>& result, const AttentionProblem<T>& p) {
    const bool weights = result.weights.data != nullptr;
    panels = memory;
    tiles.scratch = panels + panel_elements(p) * panels_of(weights);
    tiles.allowed = reinterpret_cast<uint8_t*>(tiles.scratch + kTileElements<T>);
    tiles.derivative = tiles.second = nullptr;
    tiles.queue = &queue;
    tiles.formula = tiles.scratch + 2 * kTileElements<T>;
    T* rest = tiles.formula + formula_scratch(p);
    kept = weights ? rest : nullptr;
    steps = weights ? reinterpret_cast<KeptStep<T>*>(rest + (p.keys + kBlockKeys) * kPanelWidth<T>) : nullptr;
    columns = rest;
    queue.clear();
  }
  static Index elements(const AttentionResult<T>& result, const AttentionProblem<T>& p) {
    const bool weights = result.weights.data != nullptr;
    return panel_elements(p) * panels_of(weights) + 2 * kTileElements<T> + formula_scratch(p) +
           ColumnParts<T>::elements(result.columns, p) * kMostPanels<T> +
           (weights ? step_elements(p) + (p.keys + kBlockKeys) * kPanelWidth<T> : 0);
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

template <class T> Index forward_scratch(const AttentionResult<T>& result, const AttentionProblem<T>& p) {
  return ForwardScratch<T>::elements(result, p);
}

// A careful pass adds up values divided by a power of two, at least the number of keys: their average is finite though
// their sum may not be.
template <class T> T average_divisor(const AttentionProblem<T>& p) {
  T parts = 1;
  while (parts < static_cast<T>(p.keys)) parts *= 2;
  return parts;
}

// Adds what a step's values contribute; `scores` are exp(score - largest). `deferred` is done at the same time.
template <class T>
void add_values(Panel<T>& panel, ForwardScratch<T>& scratch, const KeyStep& step, T* scores, const T* factor,
                bool nan_safe, DeferredRows<T>* deferred) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width;
  const T* weights = scores;
  if (drops(p)) {
    T* dropped = deferred != nullptr ? scratch.tiles.scratch : scores;
    block_dropout(dropped, scores, scratch.tiles.allowed, rows, step.key, step.n);
    weights = dropped;
  }
  if (nan_safe) {
    T* averaged = deferred != nullptr ? scratch.tiles.scratch : scores;
    const Vec<T> share = splat<T>(1 / average_divisor(p));
    for (Index i = 0; i < step.n * width; i += kLanes<T>) store(averaged + i, load(weights + i) * share);
    weights = averaged;
  }
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    const T* values = rows.value(step.key + part.from);
    const T* w = weights + part.from * width;
    if (rows.is_decode()) {
      decode_values(panel.out, factor, w, width, values, p.value.position, rows.rows, part.keys(), p.value_size);
      continue;
    }
    const Index lane = part.vector * kLanes<T>;
    const auto multiply = nan_safe ? multiply_skipping<T> : multiply_transposed<T>;
    multiply(panel.begin(part), panel.out + lane, width, factor + lane, values, p.value.position, w + lane, width,
             p.value_size, part.keys(), part.vectors, &scratch.queue, deferred);
  }
}

// Where the weights of a panel go.
template <class T> struct WeightRows {
  T* row[kPanelWidth<T>];
  bool past_caches;

  WeightRows(WeightsView<T> weights, const RowBlock<T>& rows) {
    constexpr Index large = Index{4} << 20;  // bytes
    const AttentionProblem<T>& p = *rows.problem;
    for (Index i = 0; i < rows.rows; ++i) {
      row[i] = weights.at(rows.batch, rows.head[i], rows.query[i], 0);
      memset(row[i], 0, sizeof(T) * rows.first);
      memset(row[i] + rows.last, 0, sizeof(T) * (p.keys - rows.last));
    }
    const auto aligned = [](Index n) { return n * static_cast<Index>(sizeof(T)) % 64 == 0; };
    past_caches = kCanStream && p.batches * p.heads * p.queries * p.keys * static_cast<Index>(sizeof(T)) >= large &&
                  aligned(p.keys) && aligned(rows.first) && reinterpret_cast<uintptr_t>(weights.data) % 64 == 0;
  }
};

// Queues what the step behind [key, key + n) will read or, behind the last of them, what the tile's results will write.
template <class T>
void fetch_next(PrefetchQueue& queue, const Panel<T>* panels, Index count, T* const* out, Index key, Index n,
                Index last) {
  const RowBlock<T>& rows = panels[0].rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index next = key + n, bytes = static_cast<Index>(sizeof(T));
  const auto add = [&](const HeadsView<const T>& x, Index size) {
    const Index more = (p.keys - next < n ? p.keys - next : n);
    queue.add(x.at(rows.batch, rows.kv_head, next), more, x.position * bytes, size * bytes);
  };
  queue.clear();
  if (next < last) {
    add(p.key, p.key_size);
    if (p.value_size > 0) add(p.value, p.value_size);
  } else {
    for (Index i = 0; i < count; ++i) {
      const RowBlock<T>& r = panels[i].rows;
      if (!r.same_head) continue;
      if (r.next != 0)
        queue.add(p.query.at(r.batch, r.head[0], r.query[0] + r.next), r.rows, p.query.position * bytes,
                  p.key_size * bytes);
      if (p.value_size > 0)
        queue.add(out[i * kPanelWidth<T>], r.rows,
                  r.rows > 1 ? (out[i * kPanelWidth<T> + 1] - out[i * kPanelWidth<T>]) * bytes : 0,
                  p.value_size * bytes);
    }
  }
  for (Index i = 0; i < count; ++i) fetch_bias(queue, panels[i].rows, key, n);
  queue.spread(count * (tiles_of(n, kMaxVectors) + tiles_of(p.value_size, kMaxVectors)));
}

// out, largest and sum of the panels, which see keys of one head, and the weights of one panel where these are wanted.
// `nan_safe` multiplies no value with a weight of 0 and keeps a bias of -inf from meeting infinity.
template <class T>
void run_panels(Panel<T>* panels, Index count, ForwardScratch<T>& scratch, T* const* out,
                const AttentionResult<T>& result, bool nan_safe) {
  const ColumnResult<T>& columns = result.columns;
  const AttentionProblem<T>& p = *panels[0].rows.problem;
  const Index size = key_step(p);
  Index first = p.keys, last = 0;
  for (Index i = 0; i < count; ++i) {
    const RowBlock<T>& rows = panels[i].rows;
    panels[i].start();
    first = rows.first < first ? rows.first : first;
    last = rows.last > last ? rows.last : last;
  }
  KeptStep<T>* kept = scratch.steps;
  ColumnParts<T> columns_of[kMostPanels<T>];
  for (Index i = 0; i < count && columns.count > 0; ++i) {
    columns_of[i] = ColumnParts<T>(scratch.columns + i * ColumnParts<T>::elements(columns, p), columns, p);
  }
  Index column = 0, step_number = 0, part_number = 0;
  for (Index key = first; key < last; key += size) {
    const Index n = p.keys - key < size ? p.keys - key : size;
    const auto passed_over = [&](Index i) { return is_excluded(panels[i].rows, key, n); };
    Index passed = 0;
    while (passed < count && passed_over(passed)) ++passed;
    if (passed == count && kept == nullptr && columns.count == 0) continue;
    fetch_next(scratch.queue, panels, count, out, key, n, last);
    for (Index i = 0; i < count; ++i) {
      Panel<T>& panel = panels[i];
      panel.step.count = 0;
      if (key < panel.rows.first || key >= panel.rows.last) {
        if (columns.count > 0)
          leave_columns(columns_of[i], columns, panel.rows, panel.softmax, panel.step, panel.scores, column,
                        step_number, part_number, key, n);
        continue;
      }
      ScoreTiles<T> tiles = scratch.tiles;
      tiles.cold = i == 0;
      tiles.scores = kept != nullptr ? scratch.kept_tile(key, panel.rows) : panel.scores;
      block_scores(tiles, panel.step, panel.rows, panel.queries, key, n, nan_safe);
      for (Index at = 0; at < panel.step.count; ++at) {
        const StepPart& part = panel.step.part[at];
        for (Index v = part.vector; v < part.vector + part.vectors; ++v)
          panel.softmax.advance(v * kLanes<T>, tiles.scores + part.from * panel.rows.width + v * kLanes<T>,
                                panel.rows.width, part.keys());
      }
      if (columns.count > 0)
        leave_columns(columns_of[i], columns, panel.rows, panel.softmax, panel.step, panel.scores, column, step_number,
                      part_number, key, n);
      if (kept == nullptr) continue;
      zero_outside(tiles.scores, panel.step, panel.rows);
      kept->parts = panel.step;
      memcpy(kept->largest, panel.softmax.largest, sizeof(T) * panel.rows.width);
      memcpy(kept->factor, panel.softmax.factor, sizeof(T) * panel.rows.width);
      ++kept;
    }
    if (columns.count > 0) {
      ++step_number;
      part_number += columns_in(columns.starts, columns.count, column, key, key + n);
    }
    if (kept != nullptr) continue;
    for (Index i = 0; i < count; ++i)
      if (panels[i].step.count > 0)
        add_values(panels[i], scratch, panels[i].step, panels[i].scores, panels[i].softmax.factor, nan_safe,
                   static_cast<DeferredRows<T>*>(nullptr));
  }
  if (kept == nullptr) {
    for (Index i = 0; i < count; ++i) {
      panels[i].finish();
      if (columns.count > 0) write_columns(columns, columns_of[i], panels[i].rows, panels[i].softmax, first, last);
    }
    return;
  }
  // Now the sums are known, and while values are multiplied the weights go to memory, once and final: that is
  // exp(score - largest then) * exp(largest then - largest) / sum.
  Panel<T>& panel = panels[0];
  panel.softmax.finish(panel.rows.width);
  WeightRows<T> to(result.weights, panel.rows);
  alignas(64) T factor[kPanelWidth<T>];
  for (KeptStep<T>* at = scratch.steps; at < kept; ++at) {
    for (Index lane = 0; lane < panel.rows.vectors * kLanes<T>; lane += kLanes<T>)
      store(factor + lane, weight_of<T>(load(at->largest + lane) - load(panel.softmax.largest + lane)) *
                               load(panel.softmax.inverse + lane));
    T* lines[kPanelWidth<T>];
    for (Index row = 0; row < panel.rows.rows; ++row) lines[row] = to.row[row] + at->parts.key;
    T* scores = scratch.kept_tile(at->parts.key, panel.rows);
    DeferredRows<T> deferred;
    deferred.to = lines;
    deferred.from = scores;
    deferred.width = panel.rows.width;
    deferred.factor = factor;
    deferred.count = panel.rows.rows;
    deferred.n = at->parts.n;
    deferred.past_caches = to.past_caches;
    add_values(panel, scratch, at->parts, scores, at->factor, nan_safe, &deferred);
    deferred.finish();
  }
  end_of_stream();
  panel.finish();
}

template <class T> void write_out(T* const* to, const Panel<T>& panel) {
  const Index n = panel.rows.problem->value_size;
  const T* inverse = panel.softmax.inverse;
  if (!panel.rows.is_decode()) return rows_from_columns(to, panel.out, panel.rows.width, inverse, panel.rows.rows, n);
  for (Index row = 0; row < panel.rows.rows; ++row)
    for (Index i = 0; i < n; ++i) to[row][i] = panel.out[row * padded<T>(n) + i] * inverse[row];
}

template <class T> T lse_of(T largest, T sum) {
  if (sum == 0) return static_cast<T>(-INFINITY);
  if (largest == static_cast<T>(INFINITY)) return largest;  // where the sum of exp(score - largest) is NaN
  return largest + static_cast<T>(log(sum));
}

// A key that one row may see and another may not can hold infinity or NaN: 0 * NaN has spoilt the other row. So has a
// score of NaN that a bias of -inf should have excluded; there the sum tells. And so has a sum of large values.
template <class T> bool needs_nan_safe(const Panel<T>& panel) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  if (rows.is_decode()) return !finite(panel.out, padded<T>(p.value_size) * rows.rows);
  return !finite_lines(panel.out, p.value_size, rows.width, rows.vectors) ||
         (nan_safe_differs(p) && !finite(panel.softmax.sum, rows.vectors * kLanes<T>));
}

template <class T> void write_statistics(const AttentionResult<T>& result, const Panel<T>& panel) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  for (Index row = 0; row < rows.rows; ++row) {
    const Index at = (rows.batch * p.heads + rows.head[row]) * p.queries + rows.query[row];
    if (result.lse != nullptr) result.lse[at] = lse_of(panel.softmax.largest[row], panel.softmax.sum[row]);
    if (result.statistics == nullptr) continue;
    result.statistics[2 * at] = panel.softmax.largest[row];
    result.statistics[2 * at + 1] = panel.softmax.inverse[row];
  }
}

template <class T>
void forward(const AttentionResult<T>& result, const AttentionProblem<T>& p, AttentionPiece piece, T* memory) {
  const bool weights = result.weights.data != nullptr;
  ForwardScratch<T> scratch(memory, result, p);
  Panel<T> panels[kMostPanels<T>];
  T* out[kMostPanels<T> * kPanelWidth<T>];
  const Index most = scratch.panels_of(weights) * kPanelWidth<T>;
  // The last rows come first, as among the pieces: then the next tile is known, that of the rows before.
  for (Index end = piece.end, begin; end > piece.begin; end = begin) {
    begin = end - 1 - (end - 1 - piece.begin) % most;
    Index count = 0;
    for (Index row = begin; row < end; row += kPanelWidth<T>, ++count) {
      Panel<T>& panel = panels[count];
      scratch.point(panel, count, p);
      set_rows(panel.rows, p, piece.batch, piece.kv_head, row, row + kPanelWidth<T> < end ? row + kPanelWidth<T> : end);
      if (panel.rows.same_head && panel.rows.query[0] >= most) panel.rows.next = -most;
      load_queries(panel.queries, panel.rows);
      for (Index i = 0; i < panel.rows.rows; ++i)
        out[count * kPanelWidth<T> + i] = result.out.at(piece.batch, panel.rows.head[i], panel.rows.query[i]);
    }
    run_panels(panels, count, scratch, out, result, false);
    for (Index i = 0; i < count; ++i) {
      Panel<T>& panel = panels[i];
      const bool nan_safe = needs_nan_safe(panel);
      if (nan_safe) run_panels(&panel, 1, scratch, out + i * kPanelWidth<T>, result, true);
      write_statistics(result, panel);
      if (nan_safe)
        for (T& inverse : panel.softmax.inverse) inverse *= average_divisor(p);
      if (result.out.data != nullptr) write_out(out + i * kPanelWidth<T>, panel);
    }
  }
}

}  // namespace

template <class T> Attention<T> attention_kernels() {
  Attention<T> table;
  table.panel_rows = kPanelWidth<T>;
  table.tile_rows = kMostPanels<T> * kPanelWidth<T>;
  table.block_keys = kBlockKeys;
  table.forward_scratch = forward_scratch<T>;
  table.forward = forward<T>;
  set_backward_kernels(table);
  set_bias_gradient_kernel(table);
  set_short_kernel(table);
  return table;
}

template Attention<float> attention_kernels<float>();
template Attention<double> attention_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
