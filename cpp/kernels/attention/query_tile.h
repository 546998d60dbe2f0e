// A block of query rows and its scores. Internal to this folder.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/attention/tiles.h"
#include "kernels/simd/sums.h"

namespace qkv::kernels::QKV_ISA {

// Panels of queries per pass over the keys, so that keys and values come from the second-level cache once for all of
// them. Measured on AVX2 at L = 1024, D = 64, as shares of sgemm: 1 panel of 16 queries 67 %, 4 panels 89 %, 8 panels
// 93 %, 16 panels 92 %.
// Always 128 queries, because sums over queries are made of so many.
constexpr Index kTileQueries = 128;
template <class T> constexpr Index kMostPanels = kTileQueries / kPanelWidth<T>;

// Keys per step of the online softmax, at most. Measured at L = 1024, D = 64 with AVX-512 on a Cascade Lake core (peak
// 153 GFLOP/s): 36 keys 104, 72 keys 106, 120 keys 110, 240 keys 108 GFLOP/s.
constexpr Index kBlockKeys = 128;

// Keys per step of this problem. Steps begin at multiples of it, so a query's result does not depend on the queries
// that are computed with it. Equal steps, since a last step of 8 keys takes as long as one of 40, and whole cache lines
// of a mask or of weights.
template <class T> inline Index key_step(const AttentionProblem<T>& p) {
  if (p.reproducible) return kBlockKeys;
  const Index steps = (p.keys + kBlockKeys - 1) / kBlockKeys;
  static_assert(kFormulaBlock % kBlockKeys == 0);
  if (p.formula != nullptr && p.formula->mask.count > 0)
    return kBlockKeys;  // so that a step lies in one block of its mask
  return steps == 0 ? 16 : ((p.keys + steps - 1) / steps + 15) / 16 * 16;
}

// A panel: queries that are computed together, one per lane. They may belong to several heads that share keys and
// values. Lanes after the last query repeat it where indices are concerned and are 0 where numbers are.
template <class T> struct RowBlock {
  const AttentionProblem<T>* problem;
  Index batch, kv_head;
  Index rows, vectors, width;  // real rows; vectors of lanes that hold them; lanes from one key to the next
  Index head[kPanelWidth<T>], query[kPanelWidth<T>];
  // Keys that causal order, window and lengths leave to each row: [low, high), empty if low == high.
  Index low[kPanelWidth<T>], high[kPanelWidth<T>];
  // For the rows of each vector: the union of these and their intersection.
  KeyRange any[kMaxVectors], all[kMaxVectors];
  // Keys to visit, in whole steps: those of the union for all rows, all keys if excluded ones are filled.
  Index first, last;
  bool same_head;  // all rows belong to one head
  Index next;      // queries from these rows to those of the tile that comes next, if known, else 0
  // Panels of at most this many rows read keys and values feature by feature (decode.h).
  static constexpr Index kDecodeRows = 4;
  // By the rows of the problem: how many of them a panel holds depends on the instruction set.
  bool is_decode() const {
    return problem->heads / problem->kv_heads * problem->queries <= kDecodeRows && !problem->reproducible;
  }

  const T* key(Index j) const { return problem->key.at(batch, kv_head, j); }
  const T* value(Index j) const { return problem->value.at(batch, kv_head, j); }
};

// queries (D, width) = the rows' queries times scale; for few rows (rows, D rounded up to vectors).
template <class T> void load_queries(T* queries, const RowBlock<T>& block) {
  const AttentionProblem<T>& p = *block.problem;
  const T* rows[kPanelWidth<T>];
  for (Index lane = 0; lane < block.width; ++lane)
    rows[lane] = p.query.at(block.batch, block.head[lane], block.query[lane]);
  if (block.is_decode()) {
    const Vec<T> scale = splat<T>(p.scale);
    const Index line = padded<T>(p.key_size);
    for (Index row = 0; row < block.rows; ++row)
      each_vector<T>(p.key_size, [=](Index i, auto at) { store(queries + row * line + i, at(rows[row] + i) * scale); });
    return;
  }
  columns_from_rows(queries, block.width, rows, block.vectors * kLanes<T>, block.rows, p.key_size, p.scale);
}

// Neighbouring vectors of rows and the keys [from, to) of a step that their rows may see.
struct StepPart {
  Index vector, vectors;
  Index from, to;
  bool masked;                 // some of these pairs are excluded
  Index keys_of[kMaxVectors];  // of each vector of the panel: so many from `from` on, ascending; others are in no part
  Index keys() const { return to - from; }
  bool has_stairs() const { return keys_of[vector] < keys(); }
  // f(v, count, begin, end) for the keys [begin, end) of the last `count` vectors, from v on.
  template <class F> void each_stair(F f) const {
    for (Index v = vector, begin = from; v < vector + vectors; begin = at_least(begin, from + keys_of[v++]))
      if (begin < from + keys_of[v]) f(v, vector + vectors - v, begin, from + keys_of[v]);
  }
};

// Leaves out keys at both ends that do not count.
template <class F> inline void narrow(StepPart& part, F counts) {
  while (part.from < part.to && !counts(part.from)) ++part.from;
  while (part.from < part.to && !counts(part.to - 1)) --part.to;
}

// A step of keys [key, key + n), n <= kBlockKeys. Pairs that are in no part are excluded.
struct KeyStep {
  Index key, n;
  bool by_bytes;  // bytes say which pairs of masked parts are allowed, else the rows' limits do
  Index count;
  StepPart part[kMaxVectors];
  // Whether the parts are all pairs.
  bool whole(Index vectors) const { return count == 1 && part[0].vectors == vectors && part[0].keys_of[0] == n; }
};

// Elements of T in one tile.
template <class T> constexpr Index kTileElements = kBlockKeys * kPanelWidth<T>;

// Tiles (keys, width) of one step of keys.
template <class T> struct ScoreTiles {
  T* scores;             // final scores, -inf where excluded; nothing outside the parts
  T* second;             // with a formula, if not null: its derivative, or the scores before it
  T* scratch;            // for a mask
  T* formula;            // scratch of formula_scratch elements
  PrefetchQueue* queue;  // what is fetched at the same time
  bool cold = true;      // the first panel that reads these keys
  uint8_t* allowed;      // of parts that are masked, if by_bytes: not 0 where the pair is allowed

  // Of `memory` two tiles and what a formula needs; the memory after them.
  T* place(T* memory, Index formula_elements, PrefetchQueue& fetched) {
    scratch = memory;
    allowed = reinterpret_cast<uint8_t*>(memory + kTileElements<T>);
    formula = memory + 2 * kTileElements<T>;
    fetched.clear();
    queue = &fetched;
    return formula + formula_elements;
  }
};

// What a formula's program reads and writes: tiles (keys, width) of the step, bytes of the step or null.
template <class T> struct FormulaTiles {
  T *scores, *second, *scratch;
  const uint8_t* allowed;
};
template <class T> Index formula_scratch(const AttentionProblem<T>& p);
// Runs instructions [begin, end) on a part of the step that starts at `key`. Sums of gradients are added to dleaves, or
// left out if that is null.
template <class T>
void run_formula(const FormulaProgram<T>& program, Index begin, Index end, const FormulaTiles<T>& tiles,
                 const StepPart& part, const RowBlock<T>& block, Index key, const LeafGradient<T>* dleaves = nullptr);

// What a formula's mask says of the pairs of a block and a step, as far as it is known beforehand.
enum class Coverage { none, some, all };
template <class T> Coverage formula_coverage(const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Formula<T>* f = p.formula;
  if (f == nullptr || f->mask.count == 0) return Coverage::all;
  if (f->some == nullptr) return Coverage::some;
  bool some = false, every = true;
  for (Index lane = 0; lane < block.rows;) {  // the first row of each block
    const Index query = block.query[lane];
    const Index line =
        block.batch * f->block_batch + block.head[lane] * f->block_head + query / kFormulaBlock * f->block_line;
    for (Index at = key / kFormulaBlock; at * kFormulaBlock < at_most(key + n, p.keys); ++at) {
      some |= f->some[line + at];
      every &= f->every[line + at];
    }
    lane += at_most(kFormulaBlock - query % kFormulaBlock, p.queries - query);
  }
  return !some ? Coverage::none : every ? Coverage::all : Coverage::some;
}
// Whether a formula excludes all pairs of a step, so that it is passed over.
template <class T> inline bool is_excluded(const RowBlock<T>& block, Index key, Index n) {
  return !block.problem->fill && formula_coverage(block, key, n) == Coverage::none;
}

// A block of the rows [begin, end) of the heads that share a key/value head.
template <class T>
void set_rows(RowBlock<T>& block, const AttentionProblem<T>& problem, Index batch, Index kv_head, Index begin,
              Index end) {
  const Index group = problem.heads / problem.kv_heads;
  block.problem = &problem;
  block.batch = batch;
  block.kv_head = kv_head;
  block.rows = end - begin;
  block.vectors = (block.rows + kLanes<T> - 1) / kLanes<T>;
  block.width = kFixedWidth ? kPanelWidth<T> : block.vectors * kLanes<T>;
  const KeyRules rules = problem;  // copied, so that the compiler makes vectors of the loops
  const Index keys = problem.keys;
  Index head = begin / problem.queries, query = begin % problem.queries;
  for (Index lane = 0; lane < block.width; ++lane) {
    block.head[lane] = kv_head * group + head;
    block.query[lane] = query;
    block.high[lane] = length_of(rules, batch, query, keys);
    if (lane + 1 < block.rows && ++query == problem.queries) {
      query = 0;
      ++head;
    }
  }
  const Index position = query_position(rules, batch, 0);
  for (Index lane = 0; lane < block.width; ++lane) {
    const KeyRange range = keys_at(rules, position + block.query[lane], block.high[lane]);
    block.low[lane] = range.low;
    block.high[lane] = range.high;
  }
  block.first = keys;
  block.last = 0;
  for (Index v = 0; v < block.vectors; ++v) {
    Index any_low = keys, any_high = 0, all_low = 0, all_high = keys;
    for (Index lane = v * kLanes<T>; lane < (v + 1) * kLanes<T>; ++lane) {
      const Index low = block.low[lane], high = block.high[lane];
      any_low = at_most(any_low, low < high ? low : keys);
      any_high = at_least(any_high, low < high ? high : 0);
      all_low = at_least(all_low, low);
      all_high = at_most(all_high, high);
    }
    block.any[v] = {any_low, any_high};
    block.all[v] = {all_low, all_high};
    block.first = at_most(block.first, any_low);
    block.last = at_least(block.last, any_high);
  }
  if (problem.fill) {
    block.first = 0;
    block.last = problem.keys;
  }
  if (block.first >= block.last) block.first = block.last = 0;
  block.next = 0;
  block.same_head = block.head[0] == block.head[block.width - 1];
  const Index step = key_step(problem);
  block.first -= block.first % step;
  block.last = at_most(problem.keys, (block.last + step - 1) / step * step);
  while (block.first < block.last && is_excluded(block, block.first, step)) block.first += step;
  while (block.first < block.last && is_excluded(block, (block.last - 1) / step * step, step))
    block.last = (block.last - 1) / step * step;
  block.first = at_most(block.first, block.last);  // the last step may end after the last key
}

// Queues the rows of a formula's tables for the keys after [key, key + n) or, if there are none, for the first keys
// and the next tile's rows.
template <class T> void fetch_tables(PrefetchQueue& queue, const RowBlock<T>& block, Index key, Index n);

// Scores of the step that starts at `key`; queries as load_queries leaves them. Where a bias of -inf meets a score that
// is not a number, only `nan_safe` gives -inf, the other way NaN.
template <class T>
void block_scores(ScoreTiles<T>& tiles, KeyStep& step, const RowBlock<T>& block, const T* queries, Index key, Index n,
                  bool nan_safe);
// tile = keys @ columns (depth, width) of the pairs of a part; keys of the step, `position` apart.
template <class T>
void multiply_part(StoreMode mode, T* tile, const T* keys, Index position, const T* columns, Index width, Index depth,
                   const StepPart& part, const ScoreTiles<T>& tiles) {
  part.each_stair([&](Index v, Index count, Index begin, Index end) {
    const Index lane = v * kLanes<T>;
    multiply_panel<T>({mode, tile + begin * width + lane, width, nullptr, keys + begin * position, position,
                       columns + lane, width, depth},
                      end - begin, count, tiles.queue, tiles.cold);
  });
}
// Whether `nan_safe` can make a difference.
template <class T> inline bool nan_safe_differs(const AttentionProblem<T>& p) { return p.bias.data != nullptr; }

// to[j][row] = weights[j][row] times 1 / (1 - p) or 0, by the stream or dropout_keep, for all pairs of a step. p = 1
// gives zeros. `bytes` is a tile of scratch.
template <class T>
void block_dropout(T* to, const T* weights, uint8_t* bytes, const RowBlock<T>& block, Index key, Index n);

// tile (n, width) = 0 outside the parts of the step.
template <class T> void zero_outside(T* tile, const KeyStep& step, const RowBlock<T>& block) {
  const Index vectors = block.width / kLanes<T>;  // those after the panel's last row, too
  if (step.whole(vectors)) return;
  Index from[kMaxVectors] = {}, to[kMaxVectors] = {};
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      from[v] = part.from;
      to[v] = part.from + part.keys_of[v];
    }
  }
  for (Index v = 0; v < vectors; ++v) {
    T* column = tile + v * kLanes<T>;
    for (Index j = 0; j < from[v]; ++j) store(column + j * block.width, Vec<T>{});
    for (Index j = to[v]; j < step.n; ++j) store(column + j * block.width, Vec<T>{});
  }
}

// Whether a panel's lines (n, width), of which `vectors` vectors are in use, are finite.
template <class T> inline bool finite_lines(const T* x, Index n, Index width, Index vectors) {
  Vec<T> sum[4] = {};  // four, because a product and a sum take four cycles
  for (Index v = 0; v < vectors; ++v) {
    const T* line = x + v * kLanes<T>;
    Index i = n >> 2;
    for (; i > 0; --i, line += 4 * width)
#pragma GCC unroll 4
      for (Index k = 0; k < 4; ++k) sum[k] += load(line + k * width) * Vec<T>{};
    for (i = n & 3; i > 0; --i, line += width) sum[0] += load(line) * Vec<T>{};
  }
  sum[0] += sum[1] + (sum[2] + sum[3]);
  return !any(sum[0] != sum[0]);
}

// Whether n numbers (a multiple of kLanes) are finite.
template <class T> inline bool finite(const T* x, Index n) { return finite_lines(x, n / kLanes<T>, kLanes<T>, 1); }

// Whether n features of a panel's rows are finite, as queries and results are in its memory.
template <class T> inline bool finite_features(const T* x, const RowBlock<T>& rows, Index n) {
  if (rows.is_decode()) return finite(x, padded<T>(n) * rows.rows);
  return finite_lines(x, n, rows.width, rows.vectors);
}

template <class T> inline bool drops(const AttentionProblem<T>& p) {
  return p.dropout.p > 0 || p.dropout.keep.data != nullptr;
}

// Fill in the entries of the backward pass.
template <class T> void set_backward_kernels(Attention<T>& table);
template <class T> void set_short_kernel(Attention<T>& table);

}  // namespace qkv::kernels::QKV_ISA
