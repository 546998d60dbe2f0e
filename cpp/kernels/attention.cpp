// The forward pass of attention and its weights.
#include "kernels/attention.h"

#include "kernels/attention_block.h"
#include "kernels/simd_math.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Largest score so far, sum of exp(score - largest) and factor by which the last step shrank what came before.
template <class T> struct RunningSoftmax {
  alignas(64) T largest[kBlockRows<T>];
  alignas(64) T sum[kBlockRows<T>];
  alignas(64) T factor[kBlockRows<T>];
};

template <class T> void start(RunningSoftmax<T>& softmax, const RowBlock<T>& block) {
  const T* sinks = block.problem->sinks;
  for (Index lane = 0; lane < block.width; ++lane) {
    softmax.largest[lane] = sinks != nullptr ? sinks[block.head[lane]] : static_cast<T>(-INFINITY);
    softmax.sum[lane] = softmax.largest[lane] > static_cast<T>(-INFINITY) ? T(1) : T(0);
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

template <class T> struct ForwardScratch {
  T* queries;  // (D, width), times scale
  T* out;      // (Dv, width), not yet divided by the sum; for few rows (rows, Dv rounded up to vectors)
  ScoreTiles<T> tiles;
  T* packed;   // for PackedKeys
  T* kept;     // (keys, width): exp(score - largest so far), if the weights are wanted, else null
  T* largest;  // (steps, width): that largest score
  T* kept_tile(Index key, const RowBlock<T>& block) const { return kept + (key - block.first) * block.width; }

  static Index most_steps(const AttentionProblem<T>& p) { return p.keys / kBlockKeys + 1; }
  ForwardScratch(T* memory, const AttentionProblem<T>& p, bool weights) {
    const Index rows = kBlockRows<T>;
    queries = memory;
    out = queries + padded<T>(p.key_size) * rows;
    tiles.scores = out + padded<T>(p.value_size) * rows;
    tiles.scratch = tiles.scores + kTileElements<T>;
    tiles.allowed = reinterpret_cast<uint8_t*>(tiles.scratch + kTileElements<T>);
    tiles.slope = nullptr;
    packed = tiles.scratch + 2 * kTileElements<T>;
    largest = packed + PackedKeys<T>::elements(p);
    kept = weights ? largest + most_steps(p) * rows : nullptr;
  }
  static Index elements(const AttentionProblem<T>& p, bool weights) {
    return (padded<T>(p.key_size) + padded<T>(p.value_size)) * kBlockRows<T> + 3 * kTileElements<T> +
           PackedKeys<T>::elements(p) + (weights ? (most_steps(p) + p.keys) * kBlockRows<T> : 0);
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

// out, largest and sum of one block of rows. `careful` multiplies no value with a weight of 0 and keeps a bias of -inf
// from meeting infinity.
template <class T>
void run_block(RunningSoftmax<T>& softmax, ForwardScratch<T>& scratch, const RowBlock<T>& block, bool careful) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  start(softmax, block);
  RowSums<T> sums{scratch.out, width, p.value_size};
  if (block.few()) memset(scratch.out, 0, sizeof(T) * padded<T>(p.value_size) * width);
  const Index size = key_step(block.last - block.first);
  KeyStep step;
  ScoreTiles<T> tiles = scratch.tiles;
  T* largest = scratch.largest;
  for (Index key = block.first; key < block.last; key += size, largest += width) {
    const Index n = block.last - key < size ? block.last - key : size;
    if (scratch.kept != nullptr) tiles.scores = scratch.kept_tile(key, block);
    block_scores(tiles, step, block, scratch.queries, key, n, careful);
    for (Index i = 0; i < step.count; ++i) advance(softmax, tiles.scores, width, step.part[i]);
    T* weights = tiles.scores;
    if (scratch.kept != nullptr) {
      zero_outside(tiles.scores, step, block);
      memcpy(largest, softmax.largest, sizeof(T) * width);
      weights = tiles.scratch;
    }
    if (drops(p))
      block_dropout(weights, tiles.scores, tiles.allowed, block, key, n);
    else
      weights = tiles.scores;
    for (Index i = 0; i < step.count; ++i) {
      const StepPart& part = step.part[i];
      const T* values = block.value(key + part.from);
      const T* w = weights + part.from * width;
      if (block.few()) {
        few_values(scratch.out, softmax.factor, w, width, values, p.value.position, block.rows, part.keys(),
                   p.value_size);
        continue;
      }
      const Index lane = part.vector * kLanes<T>;
      const auto multiply = careful ? product_skipping<T> : product_transposed<T>;
      multiply(sums.begin(part), scratch.out + lane, width, softmax.factor + lane, values, p.value.position, w + lane,
               width, p.value_size, part.keys(), part.vectors);
    }
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

// Final weights of the block, from what its steps kept: exp(score - largest then) * exp(largest then - largest) / sum.
template <class T>
void write_weights(WeightsView<T> weights, ForwardScratch<T>& scratch, const RowBlock<T>& block, const T* base,
                   const T* inverse) {
  const AttentionProblem<T>& p = *block.problem;
  T* rows[kBlockRows<T>];
  if (block.first >= block.last) {
    for (Index row = 0; row < block.rows; ++row)
      memset(weights.at(block.batch, block.head[row], block.query[row], 0), 0, sizeof(T) * p.keys);
    return;
  }
  for (Index row = 0; row < block.rows; ++row) {
    T* line = weights.at(block.batch, block.head[row], block.query[row], 0);
    memset(line, 0, sizeof(T) * block.first);
    memset(line + block.last, 0, sizeof(T) * (p.keys - block.last));
  }
  const Index size = key_step(block.last - block.first);
  const T* largest = scratch.largest;
  alignas(64) T factor[kBlockRows<T>];
  for (Index key = block.first; key < block.last; key += size, largest += block.width) {
    const Index n = block.last - key < size ? block.last - key : size;
    for (Index lane = 0; lane < block.width; lane += kLanes<T>)
      store(factor + lane, weight_of<T>(load(largest + lane) - load(base + lane)) * load(inverse + lane));
    for (Index row = 0; row < block.rows; ++row)
      rows[row] = weights.at(block.batch, block.head[row], block.query[row], key);
    rows_from_columns(rows, scratch.kept_tile(key, block), block.width, factor, block.rows, n);
  }
}

template <class T>
void forward(const AttentionResult<T>& result, const AttentionProblem<T>& p, AttentionPiece piece, T* memory) {
  ForwardScratch<T> scratch(memory, p, result.weights.data != nullptr);
  PackedKeys<T> packed(p, piece.batch, piece.kv_head, scratch.packed);
  RunningSoftmax<T> softmax;
  RowBlock<T> block;
  alignas(64) T inverse[kBlockRows<T>];
  for (Index begin = piece.begin; begin < piece.end; begin += kBlockRows<T>) {
    const Index end = begin + kBlockRows<T> < piece.end ? begin + kBlockRows<T> : piece.end;
    set_rows(block, packed.problem, piece.batch, piece.kv_head, begin, end);
    packed.include(block.first, block.last);
    load_queries(scratch.queries, block);
    run_block(softmax, scratch, block, false);
    // A key that one row may see and another may not can hold infinity or NaN: 0 * NaN has spoilt the other row.
    // So has a score of NaN that a bias of -inf should have excluded; there the sum tells.
    if (!block.few() &&
        (!finite(scratch.out, p.value_size * block.width) || (care_matters(p) && !finite(softmax.sum, block.width))))
      run_block(softmax, scratch, block, true);
    T* rows[kBlockRows<T>];
    for (Index row = 0; row < block.width; ++row) {
      const bool empty = softmax.sum[row] == 0;
      inverse[row] = empty ? T(0) : 1 / softmax.sum[row];
      const Index at = (piece.batch * p.heads + block.head[row]) * p.queries + block.query[row];
      if (result.lse != nullptr && row < block.rows)
        result.lse[at] =
            empty ? static_cast<T>(-INFINITY) : softmax.largest[row] + static_cast<T>(log(softmax.sum[row]));
      if (empty) softmax.largest[row] = 0;
      if (result.statistics != nullptr && row < block.rows) {
        result.statistics[2 * at] = softmax.largest[row];
        result.statistics[2 * at + 1] = inverse[row];
      }
      rows[row] = result.out.at(piece.batch, block.head[row], block.query[row]);
    }
    if (result.out.data != nullptr) write_out(rows, scratch, block, inverse);
    if (result.weights.data != nullptr) write_weights(result.weights, scratch, block, softmax.largest, inverse);
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
