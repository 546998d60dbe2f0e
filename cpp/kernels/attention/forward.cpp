// The forward pass of attention and its weights.
#include "kernels/attention/problem.h"

#include "kernels/attention/decode.h"
#include "kernels/attention/forward_scratch.h"
#include "kernels/attention/normalizer.h"
#include "kernels/simd/family.h"
#include "kernels/simd/math.h"
#include "kernels/simd/stream.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Adds what the values of a part contribute, of which some may not be finite.
template <class T>
void add_any_values(Panel<T>& panel, ForwardScratch<T>& scratch, const StepPart& part, const T* values,
                    const T* weights, const T* factor, StoreMode mode) {
  const AttentionProblem<T>& p = *panel.rows.problem;
  const Index width = panel.rows.width, lane = part.vector * kLanes<T>, keys = part.keys();
  const bool* finite = scratch.values.finite + part.from;
  for (Index from = 0, to; from < keys; from = to) {
    for (to = from + 1; to < keys && finite[to] == finite[from];) ++to;
    const auto multiply = finite[from] ? multiply_transposed<T> : multiply_skipping<T>;
    multiply({mode, panel.out + lane, width, factor + lane, values + from * p.value.position, p.value.position,
              weights + from * width, width, to - from},
             p.value_size, part.vectors, &scratch.queue, nullptr);
    mode = StoreMode::accumulate;
    for (Index key = from; !finite[from] && key < to; ++key)
      for (Index i = 0; i < part.vectors * kLanes<T>; i += kLanes<T>)
        store(panel.not_finite + lane + i, load(panel.not_finite + lane + i) + load(weights + key * width + i));
  }
}

// Adds what a step's values contribute; `scores` are exp(score - largest). `deferred` is done at the same time.
template <class T>
void add_values(Panel<T>& panel, ForwardScratch<T>& scratch, const KeyStep& step, T* scores, const T* factor,
                Values kind, DeferredRows<T>* deferred) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width;
  if (kind != Values::finite) zero_outside(scores, step, rows);
  const T* weights = scores;
  T* changed = deferred != nullptr ? scratch.tiles.scratch : scores;
  if (drops(p)) {
    block_dropout(changed, scores, scratch.tiles.allowed, rows, step.key, step.n);
    weights = changed;
  }
  if (kind == Values::averaged) {
    const Vec<T> share = splat<T>(1 / average_divisor(p));
    for (Index i = 0; i < step.n * width; i += kLanes<T>) store(changed + i, load(weights + i) * share);
    weights = changed;
  }
  if (kind != Values::finite && deferred != nullptr) {
    deferred->finish();
    scratch.values.look(rows, step.key, step.n);
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
    if (kind == Values::finite)
      multiply_transposed<T>({panel.begin(part), panel.out + lane, width, factor + lane, values, p.value.position,
                              w + lane, width, part.keys(), part.has_stairs() ? part.keys_of + part.vector : nullptr},
                             p.value_size, part.vectors, &scratch.queue, deferred);
    else add_any_values(panel, scratch, part, values, w + lane, factor, panel.begin(part));
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

// Queues what the step after [key, key + n) will read or, after the last of them, what the tile's results will write.
template <class T>
void fetch_next(PrefetchQueue& queue, const Panel<T>* panels, Index count, T* const* out, Index key, Index n,
                Index last) {
  const RowBlock<T>& rows = panels[0].rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index next = key + n, more = at_most(p.keys - next, n);
  queue.clear();
  if (next < last) {
    queue.add(rows.key(next), more, p.key.position, p.key_size);
    if (p.value_size > 0 && !has_threshold(p.normalizer))
      queue.add(rows.value(next), more, p.value.position, p.value_size);
  } else {
    for (Index i = 0; i < count; ++i) {
      const RowBlock<T>& r = panels[i].rows;
      if (!r.same_head) continue;
      if (r.next != 0)
        queue.add(p.query.at(r.batch, r.head[0], r.query[0] + r.next), r.rows, p.query.position, p.key_size);
      if (p.value_size > 0)
        queue.add(out[i * kPanelWidth<T>], r.rows,
                  r.rows > 1 ? out[i * kPanelWidth<T> + 1] - out[i * kPanelWidth<T>] : 0, p.value_size);
    }
  }
  for (Index i = 0; i < count; ++i) fetch_tables(queue, panels[i].rows, key, n);
  queue.spread(count * (tiles_of(n, kMaxVectors) + tiles_of(p.value_size, kMaxVectors)));
}

// A vector of rows from `lane` on: its n scores become weights, of softmax before they are divided by their sum. A
// weight that is not finite makes the sum NaN where that decides what is right.
template <class T> void weigh(Panel<T>& panel, Index lane, T* scores, Index n) {
  const AttentionProblem<T>& p = *panel.rows.problem;
  const Index width = panel.rows.width;
  if (p.normalizer == Normalizer::softmax) return panel.softmax.advance(lane, scores, width, n);
  with_normalizer(p.normalizer, [&]<Normalizer normalizer>() {
    if constexpr (normalizer != Normalizer::softmax)
      each_own_weight<normalizer, T>(scores, width, n, Vec<T>{}, Vec<T>{}, [](T* at, Vec<T> w) { store(at, w); });
  });
  if (!nan_safe_differs(p)) return;
  Vec<T> zeros = {};
  for (Index j = 0; j < n; ++j) zeros += load(scores + j * width) * Vec<T>{};
  store(panel.softmax.sum + lane, load(panel.softmax.sum + lane) + zeros);
}

// out, largest and sum of the panels, which see keys of one head, and the weights of one panel where these are wanted;
// of a normaliser with a threshold all results. Averaged values also keep a bias of -inf from meeting infinity.
template <class T>
void run_panels(Panel<T>* panels, Index count, ForwardScratch<T>& scratch, T* const* out,
                const AttentionResult<T>& result, Values values) {
  const AttentionProblem<T>& p = *panels[0].rows.problem;
  const Index size = key_step(p);
  const bool sparse = has_threshold(p.normalizer);
  KeptStep<T>* kept = scratch.steps;
  SparseRows<T> sparse_rows(scratch.sparse, p);
  Index first = p.keys, last = 0;
  for (Index i = 0; i < count; ++i) {
    const RowBlock<T>& rows = panels[i].rows;
    panels[i].start();
    first = at_most(first, rows.first);
    last = at_least(last, rows.last);
    if (sparse) sparse_rows.start(i, rows);
  }
  scratch.values.largest = 0;
  for (Index key = first; key < last; key += size) {
    const Index n = at_most(p.keys - key, size);
    Index passed = 0;
    while (passed < count && is_excluded(panels[passed].rows, key, n)) ++passed;
    if (passed == count && kept == nullptr) continue;
    fetch_next(scratch.queue, panels, count, out, key, n, last);
    for (Index i = 0; i < count; ++i) {
      Panel<T>& panel = panels[i];
      panel.step.count = 0;
      ScoreTiles<T> tiles = scratch.tiles;
      tiles.cold = i == 0;
      tiles.scores = kept != nullptr ? scratch.kept_tile(key, panel.rows) : panel.scores;
      const bool visited = key >= panel.rows.first && key < panel.rows.last;
      if (visited)
        block_scores(tiles, panel.step, panel.rows, panel.queries, key, n, sparse || values == Values::averaged);
      if (sparse) sparse_rows.add(i, panel.step, panel.scores, panel.rows.width);
      for (Index at = 0; !sparse && at < panel.step.count; ++at) {
        const StepPart& part = panel.step.part[at];
        for (Index v = part.vector; v < part.vector + part.vectors; ++v)
          weigh(panel, v * kLanes<T>, tiles.scores + part.from * panel.rows.width + v * kLanes<T>, part.keys_of[v]);
      }
      if (kept == nullptr || !visited) continue;
      zero_outside(tiles.scores, panel.step, panel.rows);
      kept->parts = panel.step;
      memcpy(kept->largest, panel.softmax.largest, sizeof(T) * panel.rows.width);
      memcpy(kept->factor, panel.softmax.factor, sizeof(T) * panel.rows.width);
      ++kept;
    }
    if (kept != nullptr || sparse) continue;
    if (values != Values::finite) scratch.values.look(panels[0].rows, key, n);
    for (Index i = 0; i < count; ++i)
      if (panels[i].step.count > 0)
        add_values(panels[i], scratch, panels[i].step, panels[i].scores, panels[i].softmax.factor, values,
                   static_cast<DeferredRows<T>*>(nullptr));
  }
  for (Index i = 0; i < count && kept == nullptr; ++i) {
    const RowBlock<T>& rows = panels[i].rows;
    if (sparse) {
      sparse_rows.finish(i, rows, panels[i].scores, panels[i].out, out + i * kPanelWidth<T>, result);
      continue;
    }
    panels[i].finish();
  }
  if (kept == nullptr) return;
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
    add_values(panel, scratch, at->parts, scores, at->factor, values, &deferred);
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
  return largest + log_of_number(sum);
}

// A key that one row may see and another may not can hold infinity or NaN: 0 * NaN has made the other row NaN, and so
// has a sum of large values. A score of NaN or infinity does that to its own row, which the sum tells.
template <class T> bool has_finite_out(const Panel<T>& panel) {
  return finite_features(panel.out, panel.rows, panel.rows.problem->value_size);
}

// Whether results of values of any kind are as they must be: what is not finite comes from values or scores that are
// not finite and count. A bias of -inf excludes scores of NaN, too.
template <class T> bool is_right(const Panel<T>& panel, T largest_value) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  if (nan_safe_differs(p) && !finite(panel.softmax.sum, rows.vectors * kLanes<T>)) return false;
  if (has_finite_out(panel)) return true;
  const T sum = largest_value * average_divisor(p);
  if (rows.is_decode() || sum - sum != 0) return false;
  for (Index lane = 0; lane < rows.rows; ++lane) {
    const bool counts = panel.not_finite[lane] != 0 || panel.softmax.sum[lane] - panel.softmax.sum[lane] != 0;
    for (Index i = 0; !counts && i < p.value_size; ++i)
      if (const T x = panel.out[i * rows.width + lane]; x - x != 0) return false;
  }
  return true;
}

template <class T> void write_statistics(const AttentionResult<T>& result, const Panel<T>& panel) {
  const RowBlock<T>& rows = panel.rows;
  const AttentionProblem<T>& p = *rows.problem;
  for (Index row = 0; row < rows.rows; ++row) {
    const Index at = p.row(rows.batch, rows.head[row], rows.query[row]);
    if (result.lse != nullptr) result.lse[at] = lse_of(panel.softmax.largest[row], panel.softmax.sum[row]);
    if (result.statistics == nullptr) continue;
    result.statistics[2 * at] = panel.softmax.largest[row];
    result.statistics[2 * at + 1] = panel.softmax.inverse[row];
  }
}

template <class T>
void forward(const AttentionResult<T>& result, const AttentionProblem<T>& p, AttentionPiece piece, T* memory) {
  const bool weights = ForwardScratch<T>::keeps_weights(result, p);
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
    if (has_threshold(p.normalizer)) {
      run_panels(panels, count, scratch, out, result, Values::finite);
      continue;
    }
    // Which pieces come first may be left to chance: both ways give the same bits.
    uint8_t* not_finite =
        result.not_finite != nullptr ? result.not_finite + piece.batch * p.kv_heads + piece.kv_head : nullptr;
    const bool known =
        not_finite != nullptr && !panels[0].rows.is_decode() && __atomic_load_n(not_finite, __ATOMIC_RELAXED) != 0;
    run_panels(panels, count, scratch, out, result, known ? Values::any : Values::finite);
    bool all_finite = true;
    for (Index i = 0; i < count; ++i) all_finite = all_finite && has_finite_out(panels[i]);
    if (!known && !all_finite && !panels[0].rows.is_decode()) {
      if (not_finite != nullptr) __atomic_store_n(not_finite, uint8_t{1}, __ATOMIC_RELAXED);
      run_panels(panels, count, scratch, out, result, Values::any);
    }
    const bool right = all_finite && !nan_safe_differs(p);
    const T largest_value = scratch.values.largest;
    for (Index i = 0; i < count; ++i) {
      Panel<T>& panel = panels[i];
      const bool averaged = !right && !is_right(panel, largest_value);
      if (averaged) run_panels(&panel, 1, scratch, out + i * kPanelWidth<T>, result, Values::averaged);
      write_statistics(result, panel);
      if (averaged)
        for (T& inverse : panel.softmax.inverse) inverse *= average_divisor(p);
      if (result.out.data != nullptr) write_out(out + i * kPanelWidth<T>, panel);
    }
  }
}

template <class T> Attention<T> attention_kernels() {
  Attention<T> table;
  table.panel_rows = kPanelWidth<T>;
  table.tile_rows = kMostPanels<T> * kPanelWidth<T>;
  table.forward_scratch = ForwardScratch<T>::elements;
  table.forward = forward<T>;
  set_backward_kernels(table);
  set_short_kernel(table);
  return table;
}

}  // namespace

QKV_FAMILY(Attention, attention_kernels<T>())

}  // namespace qkv::kernels::QKV_ISA
