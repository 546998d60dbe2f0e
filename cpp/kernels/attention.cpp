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

// Scores (n, width) become exp(score - largest); a vector of rows at a time.
template <class T> void advance(RunningSoftmax<T>& softmax, T* scores, Index width, Index n) {
  const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
  for (Index lane = 0; lane < width; lane += kLanes<T>) {
    T* s = scores + lane;
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
  T* packed;  // for PackedKeys

  ForwardScratch(T* memory, const AttentionProblem<T>& p) {
    const Index rows = kBlockRows<T>;
    queries = memory;
    out = queries + padded<T>(p.key_size) * rows;
    tiles.scores = out + padded<T>(p.value_size) * rows;
    tiles.scratch = tiles.scores + kTileElements<T>;
    tiles.allowed = reinterpret_cast<typename VectorTypes<T>::Integer*>(tiles.scratch + kTileElements<T>);
    tiles.slope = nullptr;
    packed = tiles.scratch + 2 * kTileElements<T>;
  }
  static Index elements(const AttentionProblem<T>& p) {
    return (padded<T>(p.key_size) + padded<T>(p.value_size)) * kBlockRows<T> + 3 * kTileElements<T> +
           PackedKeys<T>::elements(p);
  }
};

template <class T> Index forward_scratch(const AttentionProblem<T>& p) { return ForwardScratch<T>::elements(p); }

// out, largest and sum of one block of rows. `skipping` multiplies no value with a weight of 0.
template <class T>
void run_block(RunningSoftmax<T>& softmax, ForwardScratch<T>& scratch, const RowBlock<T>& block, bool skipping) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  start(softmax, block);
  if (block.first >= block.last || block.few()) memset(scratch.out, 0, sizeof(T) * padded<T>(p.value_size) * width);
  const Index step = key_step(block.last - block.first);
  for (Index key = block.first; key < block.last; key += step) {
    const Index n = block.last - key < step ? block.last - key : step;
    block_scores(scratch.tiles, block, scratch.queries, key, n);
    advance(softmax, scratch.tiles.scores, width, n);
    if (drops(p)) block_dropout(scratch.tiles.scores, block, key, n);
    if (block.few()) {
      few_values(scratch.out, softmax.factor, scratch.tiles.scores, width, block.value(key), p.value.position,
                 block.rows, n, p.value_size);
      continue;
    }
    const auto multiply = skipping ? product_skipping<T> : product_transposed<T>;
    multiply(key == block.first ? Into::replace : Into::scale, scratch.out, width, softmax.factor, block.value(key),
             p.value.position, scratch.tiles.scores, width, p.value_size, n, block.vectors);
  }
}

template <class T>
void write_out(T* const* rows, const ForwardScratch<T>& scratch, const RowBlock<T>& block, const T* inverse) {
  const Index n = block.problem->value_size;
  if (!block.few()) return rows_from_columns(rows, scratch.out, block.width, inverse, block.rows, n);
  for (Index row = 0; row < block.rows; ++row)
    for (Index i = 0; i < n; ++i) rows[row][i] = scratch.out[row * padded<T>(n) + i] * inverse[row];
}

// Final weights of the block, from the same scores again.
template <class T>
void write_weights(WeightsView<T> weights, ForwardScratch<T>& scratch, const RowBlock<T>& block, const T* base,
                   const T* inverse) {
  const AttentionProblem<T>& p = *block.problem;
  T* rows[kBlockRows<T>];
  for (Index row = 0; row < block.rows; ++row) {
    T* line = weights.at(block.batch, block.head[row], block.query[row], 0);
    memset(line, 0, sizeof(T) * block.first);
    if (block.last < p.keys) memset(line + block.last, 0, sizeof(T) * (p.keys - block.last));
  }
  const Index step = key_step(block.last - block.first);
  for (Index key = block.first; key < block.last; key += step) {
    const Index n = block.last - key < step ? block.last - key : step;
    block_scores(scratch.tiles, block, scratch.queries, key, n);
    for (Index j = 0; j < n; ++j)
      for (Index lane = 0; lane < block.width; lane += kLanes<T>) {
        T* s = scratch.tiles.scores + j * block.width + lane;
        store(s, weight_of<T>(load(s) - load(base + lane)));
      }
    for (Index row = 0; row < block.rows; ++row)
      rows[row] = weights.at(block.batch, block.head[row], block.query[row], key);
    rows_from_columns(rows, scratch.tiles.scores, block.width, inverse, block.rows, n);
  }
}

template <class T>
void forward(const AttentionResult<T>& result, const AttentionProblem<T>& p, AttentionPiece piece, T* memory) {
  ForwardScratch<T> scratch(memory, p);
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
    if (!block.few() && !finite(scratch.out, p.value_size * block.width)) run_block(softmax, scratch, block, true);
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
  return table;
}

template Attention<float> attention_kernels<float>();
template Attention<double> attention_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
