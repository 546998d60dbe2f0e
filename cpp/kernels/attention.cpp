// The forward pass of attention and its weights.
#include "kernels/attention.h"

#include "kernels/attention_block.h"
#include "kernels/simd_math.h"
#include "kernels/simd_stream.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Largest score so far, sum of exp(score - largest) and factor by which the last step shrank what came before.
template <class T> struct RunningSoftmax {
  alignas(64) T largest[kBlockRows<T>];  // in the end 0 for empty rows
  alignas(64) T sum[kBlockRows<T>];
  alignas(64) T factor[kBlockRows<T>];
  alignas(64) T inverse[kBlockRows<T>];  // in the end 1 / sum, 0 for empty rows
};

template <class T> void start(RunningSoftmax<T>& softmax, const RowBlock<T>& block) {
  const T* sinks = block.problem->sinks;
  for (Index lane = 0; lane < block.width; ++lane) {
    softmax.largest[lane] = sinks != nullptr ? sinks[block.head[lane]] : static_cast<T>(-INFINITY);
    softmax.sum[lane] = softmax.largest[lane] > static_cast<T>(-INFINITY) ? T(1) : T(0);
  }
}

template <class T> void finish(RunningSoftmax<T>& softmax, Index width) {
  for (Index lane = 0; lane < width; ++lane) {
    const bool empty = softmax.sum[lane] == 0;
    softmax.inverse[lane] = empty ? T(0) : 1 / softmax.sum[lane];
    if (empty) softmax.largest[lane] = 0;
  }
}

// Scores of a part become exp(score - largest); a vector of rows at a time.
template <class T> void advance(RunningSoftmax<T>& softmax, T* scores, Index width, const StepPart& part) {
  const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
  const Index n = part.keys();
  for (Index lane = part.vector * kLanes<T>; lane < (part.vector + part.vectors) * kLanes<T>; lane += kLanes<T>) {
    T* s = scores + part.from * width + lane;
    Vec<T> most[4] = {lowest, lowest, lowest, lowest};  // four, because a maximum takes four cycles
    Index j = 0;
    for (; j + 4 <= n; j += 4)
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) most[i] = maximum(load(s + (j + i) * width), most[i]);
    for (; j < n; ++j) most[0] = maximum(load(s + j * width), most[0]);
    const Vec<T> before = load(softmax.largest + lane);
    const Vec<T> now = maximum(maximum(maximum(most[0], most[1]), maximum(most[2], most[3])), before);
    const Vec<T> base = select(now == lowest, Vec<T>{}, now);
    Vec<T> sum[2] = {};
    for (j = 0; j + 2 <= n; j += 2) {
#pragma GCC unroll 2
      for (Index i = 0; i < 2; ++i) {
        const Vec<T> w = weight_of<T>(load(s + (j + i) * width) - base);
        store(s + (j + i) * width, w);
        sum[i] += w;
      }
    }
    if (j < n) {
      const Vec<T> w = weight_of<T>(load(s + j * width) - base);
      store(s + j * width, w);
      sum[0] += w;
    }
    const Vec<T> factor = weight_of<T>(before - base);
    store(softmax.factor + lane, factor);
    store(softmax.largest + lane, now);
    store(softmax.sum + lane, load(softmax.sum + lane) * factor + (sum[0] + sum[1]));
  }
}

// A step of keys whose weights are kept until the sums are known.
template <class T> struct KeptStep {
  KeyStep parts;
  T largest[kBlockRows<T>];  // scores so far
  T factor[kBlockRows<T>];   // as in RunningSoftmax
};

template <class T> struct ForwardScratch {
  T* queries;  // (D, width), times scale
  T* out;      // (Dv, width), not yet divided by the sum; for few rows (rows, Dv rounded up to vectors)
  ScoreTiles<T> tiles;
  T* packed;           // for PackedKeys
  T* kept;             // (keys, width): exp(score - largest so far), if the weights are wanted, else null
  KeptStep<T>* steps;  // if the weights are wanted
  LinesAhead ahead;
  T* kept_tile(Index key, const RowBlock<T>& block) const { return kept + (key - block.first) * block.width; }

  static Index step_elements(const AttentionProblem<T>& p) {
    return (p.keys / kBlockKeys + 1) * static_cast<Index>(sizeof(KeptStep<T>) / sizeof(T));
  }
  ForwardScratch(T* memory, const AttentionProblem<T>& p, bool weights) {
    const Index rows = kBlockRows<T>;
    queries = memory;
    out = queries + padded<T>(p.key_size) * rows;
    tiles.scores = out + padded<T>(p.value_size) * rows;
    tiles.scratch = tiles.scores + kTileElements<T>;
    tiles.allowed = reinterpret_cast<uint8_t*>(tiles.scratch + kTileElements<T>);
    tiles.slope = nullptr;
    tiles.ahead = &ahead;
    packed = tiles.scratch + 2 * kTileElements<T>;
    kept = weights ? packed + PackedKeys<T>::elements(p) : nullptr;
    steps = weights ? reinterpret_cast<KeptStep<T>*>(kept + p.keys * rows) : nullptr;
  }
  static Index elements(const AttentionProblem<T>& p, bool weights) {
    return (padded<T>(p.key_size) + padded<T>(p.value_size)) * kBlockRows<T> + 3 * kTileElements<T> +
           PackedKeys<T>::elements(p) + (weights ? step_elements(p) + p.keys * kBlockRows<T> : 0);
  }
};

template <class T> Index forward_scratch(const AttentionProblem<T>& p, bool weights) {
  return ForwardScratch<T>::elements(p, weights);
}

// Results of the vectors of rows of a part, as the steps of keys add to them.
template <class T> struct RowSums {
  T* out;  // (Dv, width)
  Index width, size;
  bool begun[kMaxVectors] = {};

  void zero(Index vector) {
    for (Index i = 0; i < size; ++i) store(out + i * width + vector * kLanes<T>, Vec<T>{});
    begun[vector] = true;
  }
  // Whether the part's first product may replace what stands there; if only for some of its vectors, these become 0.
  Into begin(const StepPart& part) {
    Index new_ones = 0;
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) new_ones += !begun[v];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      if (!begun[v] && new_ones < part.vectors) zero(v);
      begun[v] = true;
    }
    return new_ones == part.vectors ? Into::replace : Into::scale;
  }
};

// A careful pass adds up values divided by a power of two, at least the number of keys: their average is finite though
// their sum may not be.
template <class T> T parts_of(const AttentionProblem<T>& p) {
  T parts = 1;
  while (parts < static_cast<T>(p.keys)) parts *= 2;
  return parts;
}

// Adds what a step's values contribute; `scores` are exp(score - largest). `behind` is done meanwhile.
template <class T>
void add_values(RowSums<T>& sums, ForwardScratch<T>& scratch, const RowBlock<T>& block, const KeyStep& step, T* scores,
                const T* factor, bool careful, RowsBehind<T>* behind) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  const T* weights = scores;
  if (drops(p)) {
    T* dropped = behind != nullptr ? scratch.tiles.scratch : scores;
    block_dropout(dropped, scores, scratch.tiles.allowed, block, step.key, step.n);
    weights = dropped;
  }
  if (careful) {
    T* small = behind != nullptr ? scratch.tiles.scratch : scores;
    const Vec<T> share = splat<T>(1 / parts_of(p));
    for (Index i = 0; i < step.n * width; i += kLanes<T>) store(small + i, load(weights + i) * share);
    weights = small;
  }
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    const T* values = block.value(step.key + part.from);
    const T* w = weights + part.from * width;
    if (block.few()) {
      few_values(scratch.out, factor, w, width, values, p.value.position, block.rows, part.keys(), p.value_size);
      continue;
    }
    const Index lane = part.vector * kLanes<T>;
    const auto multiply = careful ? product_skipping<T> : product_transposed<T>;
    multiply(sums.begin(part), scratch.out + lane, width, factor + lane, values, p.value.position, w + lane, width,
             p.value_size, part.keys(), part.vectors, behind);
  }
}

// Where the weights of a block go.
template <class T> struct WeightRows {
  T* row[kBlockRows<T>];
  bool past_caches;

  WeightRows(WeightsView<T> weights, const RowBlock<T>& block) {
    constexpr Index large = Index{4} << 20;  // bytes
    const AttentionProblem<T>& p = *block.problem;
    for (Index row = 0; row < block.rows; ++row) {
      this->row[row] = weights.at(block.batch, block.head[row], block.query[row], 0);
      memset(this->row[row], 0, sizeof(T) * block.first);
      memset(this->row[row] + block.last, 0, sizeof(T) * (p.keys - block.last));
    }
    const auto aligned = [](Index n) { return n * static_cast<Index>(sizeof(T)) % 64 == 0; };
    past_caches = kCanStream && p.batches * p.heads * p.queries * p.keys * static_cast<Index>(sizeof(T)) >= large &&
                  aligned(p.keys) && aligned(block.first) && reinterpret_cast<uintptr_t>(weights.data) % 64 == 0;
  }
};

// out, largest and sum of one block of rows, and its weights where these are wanted. `careful` multiplies no value with
// a weight of 0 and keeps a bias of -inf from meeting infinity.
template <class T>
void run_block(RunningSoftmax<T>& softmax, ForwardScratch<T>& scratch, const RowBlock<T>& block, T* const* out,
               WeightsView<T> weights, bool careful) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  start(softmax, block);
  RowSums<T> sums{scratch.out, width, p.value_size};
  if (block.few()) memset(scratch.out, 0, sizeof(T) * padded<T>(p.value_size) * width);
  const Index size = block.step();
  KeyStep step;
  ScoreTiles<T> tiles = scratch.tiles;
  KeptStep<T>* kept = scratch.steps;
  for (Index key = block.first; key < block.last; key += size) {
    const Index n = block.last - key < size ? block.last - key : size;
    if (kept != nullptr) tiles.scores = scratch.kept_tile(key, block);
    if (key + n == block.last)  // soon the result is written
      for (Index row = 0; row < block.rows; ++row)
        scratch.ahead.add(out[row], p.value_size * static_cast<Index>(sizeof(T)));
    block_scores(tiles, step, block, scratch.queries, key, n, careful);
    for (Index i = 0; i < step.count; ++i) advance(softmax, tiles.scores, width, step.part[i]);
    if (kept == nullptr) {
      add_values(sums, scratch, block, step, tiles.scores, softmax.factor, careful,
                 static_cast<RowsBehind<T>*>(nullptr));
      continue;
    }
    zero_outside(tiles.scores, step, block);
    kept->parts = step;
    memcpy(kept->largest, softmax.largest, sizeof(T) * width);
    memcpy(kept->factor, softmax.factor, sizeof(T) * width);
    ++kept;
  }
  finish(softmax, width);
  if (kept != nullptr) {
    // Now the sums are known, and while values are multiplied the weights go to memory, once and final: that is
    // exp(score - largest then) * exp(largest then - largest) / sum.
    WeightRows<T> to(weights, block);
    alignas(64) T factor[kBlockRows<T>];
    for (KeptStep<T>* at = scratch.steps; at < kept; ++at) {
      for (Index lane = 0; lane < width; lane += kLanes<T>)
        store(factor + lane,
              weight_of<T>(load(at->largest + lane) - load(softmax.largest + lane)) * load(softmax.inverse + lane));
      T* rows[kBlockRows<T>];
      for (Index row = 0; row < block.rows; ++row) rows[row] = to.row[row] + at->parts.key;
      T* scores = scratch.kept_tile(at->parts.key, block);
      RowsBehind<T> behind;
      behind.to = rows;
      behind.from = scores;
      behind.width = width;
      behind.factor = factor;
      behind.count = block.rows;
      behind.n = at->parts.n;
      behind.past_caches = to.past_caches;
      add_values(sums, scratch, block, at->parts, scores, at->factor, careful, &behind);
      behind.finish();
    }
    end_of_stream();
  }
  if (!block.few())
    for (Index v = 0; v < block.vectors; ++v)
      if (!sums.begun[v]) sums.zero(v);
}

template <class T>
void write_out(T* const* rows, const ForwardScratch<T>& scratch, const RowBlock<T>& block, const T* inverse) {
  const Index n = block.problem->value_size;
  if (!block.few()) return rows_from_columns(rows, scratch.out, block.width, inverse, block.rows, n);
  for (Index row = 0; row < block.rows; ++row)
    for (Index i = 0; i < n; ++i) rows[row][i] = scratch.out[row * padded<T>(n) + i] * inverse[row];
}

template <class T> T lse_of(T largest, T sum) {
  if (sum == 0) return static_cast<T>(-INFINITY);
  if (largest == static_cast<T>(INFINITY)) return largest;  // where the sum of exp(score - largest) is NaN
  return largest + static_cast<T>(log(sum));
}

template <class T>
void forward(const AttentionResult<T>& result, const AttentionProblem<T>& p, AttentionPiece piece, T* memory) {
  ForwardScratch<T> scratch(memory, p, result.weights.data != nullptr);
  PackedKeys<T> packed(p, piece.batch, piece.kv_head, scratch.packed);
  RunningSoftmax<T> softmax;
  RowBlock<T> block;
  // The last rows come first, as among the pieces: then the next block is known, that of the rows before.
  for (Index end = piece.end, begin; end > piece.begin; end = begin) {
    begin = end - 1 - (end - 1 - piece.begin) % kBlockRows<T>;
    set_rows(block, packed.problem, piece.batch, piece.kv_head, begin, end);
    if (block.same_head && block.query[0] >= kBlockRows<T>) block.next = -kBlockRows<T>;
    packed.include(block.first, block.last);
    fetch_queries(scratch.ahead, block);
    load_queries(scratch.queries, block);
    T* rows[kBlockRows<T>];
    for (Index row = 0; row < block.width; ++row)
      rows[row] = result.out.at(piece.batch, block.head[row], block.query[row]);
    run_block(softmax, scratch, block, rows, result.weights, false);
    // A key that one row may see and another may not can hold infinity or NaN: 0 * NaN has spoilt the other row.
    // So has a score of NaN that a bias of -inf should have excluded; there the sum tells.
    // And so has a sum of large values.
    const Index numbers = block.few() ? padded<T>(p.value_size) * block.rows : p.value_size * block.width;
    const bool careful =
        !finite(scratch.out, numbers) || (care_matters(p) && !block.few() && !finite(softmax.sum, block.width));
    if (careful) run_block(softmax, scratch, block, rows, result.weights, true);
    for (Index row = 0; row < block.width; ++row) {
      const Index at = (piece.batch * p.heads + block.head[row]) * p.queries + block.query[row];
      if (result.lse != nullptr && row < block.rows) result.lse[at] = lse_of(softmax.largest[row], softmax.sum[row]);
      if (result.statistics != nullptr && row < block.rows) {
        result.statistics[2 * at] = softmax.largest[row];
        result.statistics[2 * at + 1] = softmax.inverse[row];
      }
    }
    if (careful)
      for (T& inverse : softmax.inverse) inverse *= parts_of(p);
    if (result.out.data != nullptr) write_out(rows, scratch, block, softmax.inverse);
  }
}

}  // namespace

template <class T> Attention<T> attention_kernels() {
  Attention<T> table;
  table.block_rows = kBlockRows<T>;
  table.block_keys = kBlockKeys;
  table.forward_scratch = forward_scratch<T>;
  table.forward = forward<T>;
  set_backward_kernels(table);
  set_bias_gradient_kernel(table);
  set_small_kernel(table);
  return table;
}

template Attention<float> attention_kernels<float>();
template Attention<double> attention_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
