#include "kernels/attention_block.h"

#include "core/counter_random.h"
#include "kernels/simd_math.h"

namespace qkv::kernels::QKV_ISA {
namespace {

inline Index smaller(Index a, Index b) { return a < b ? a : b; }
inline Index larger(Index a, Index b) { return a > b ? a : b; }

// Whether all rows have the same row of the bias.
template <class T> bool one_bias_row(const RowBlock<T>& block) {
  const WeightsView<const T>& bias = block.problem->bias;
  return bias.query == 0 && (block.same_head || bias.head == 0);
}

// Keys [low, high) that causal order, window and lengths allow to row `lane`.
template <class T> void set_limits(RowBlock<T>& block, Index lane) {
  const AttentionProblem<T>& p = *block.problem;
  const Index i = block.query[lane], far = Index{1} << 60;  // far + far does not overflow
  const Index offset = p.q_offset != nullptr ? static_cast<Index>(p.q_offset[block.batch]) : 0;
  const Index position = larger(-far, smaller(far, offset)) + i;
  Index low = 0, high = p.keys;
  if (p.causal) high = smaller(high, position + 1);
  if (p.left >= 0) low = larger(low, position - smaller(far, p.left));
  if (p.right >= 0) high = smaller(high, position + smaller(far, p.right) + 1);
  if (p.valid_lens != nullptr)
    high = smaller(high, static_cast<Index>(p.valid_lens[block.batch * p.valid_batch + i * p.valid_query]));
  high = larger(high, 0);
  block.position[lane] = position;
  block.low[lane] = smaller(low, high);
  block.high[lane] = high;
}

// allowed[j][lane] by the rows' limits.
template <class T> void allow_limits(ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key, Index n) {
  T low[kBlockRows<T>], high[kBlockRows<T>];
  for (Index lane = 0; lane < block.width; ++lane) {
    low[lane] = static_cast<T>(larger(0, smaller(n, block.low[lane] - key)));
    high[lane] = static_cast<T>(larger(0, smaller(n, block.high[lane] - key)));
  }
  for (Index j = 0; j < n; ++j) {
    const Vec<T> at = splat<T>(static_cast<T>(j));
    for (Index lane = 0; lane < block.width; lane += kLanes<T>) {
      const Mask<T> mask = (at >= load(low + lane)) & (at < load(high + lane));
      __builtin_memcpy(tiles.allowed + j * block.width + lane, &mask, sizeof mask);
    }
  }
}

// allowed[j][lane] &= mask. Rows of a mask are transposed as numbers: 0 or 1.
template <class T> void allow_mask(ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  if (p.mask.query == 0 && (block.same_head || p.mask.head == 0)) {
    const bool* row = p.mask.at(block.batch, block.head[0], 0, key);
    for (Index j = 0; j < n; ++j)
      if (!row[j * p.mask.key]) memset(tiles.allowed + j * width, 0, width * sizeof(T));
    return;
  }
  T lines[kLanes<T>][kBlockKeys];
  const T* rows[kLanes<T>];
  T columns[kBlockKeys * kLanes<T>];
  for (Index lane = 0; lane < width; lane += kLanes<T>) {
    for (Index i = 0; i < kLanes<T>; ++i) {
      const bool* row = p.mask.at(block.batch, block.head[lane + i], block.query[lane + i], key);
      if (p.mask.key == 1)
        for (Index j = 0; j < n; ++j) lines[i][j] = static_cast<T>(row[j]);
      else
        for (Index j = 0; j < n; ++j) lines[i][j] = static_cast<T>(row[j * p.mask.key]);
      rows[i] = lines[i];
    }
    columns_from_rows(columns, kLanes<T>, rows, kLanes<T>, n);
    for (Index j = 0; j < n; ++j) {
      Mask<T> mask;
      __builtin_memcpy(&mask, tiles.allowed + j * width + lane, sizeof mask);
      mask &= load(columns + j * kLanes<T>) != Vec<T>{};
      __builtin_memcpy(tiles.allowed + j * width + lane, &mask, sizeof mask);
    }
  }
}

// allowed[j][lane] &= bias is not -inf. The bias of rows that differ is in tiles.scratch.
template <class T> void allow_bias(ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key, Index n) {
  const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
  const bool one_row = one_bias_row(block);
  for (Index j = 0; j < n; ++j) {
    const Vec<T> all = one_row ? splat<T>(*block.problem->bias.at(block.batch, block.head[0], 0, key + j)) : Vec<T>{};
    for (Index lane = 0; lane < block.width; lane += kLanes<T>) {
      const Index i = j * block.width + lane;
      Mask<T> mask;
      __builtin_memcpy(&mask, tiles.allowed + i, sizeof mask);
      mask &= (one_row ? all : load(tiles.scratch + i)) != lowest;
      __builtin_memcpy(tiles.allowed + i, &mask, sizeof mask);
    }
  }
}

// scores = softcap * tanh(scores / softcap); slope = 1 - tanh^2.
template <class T> void cap(ScoreTiles<T>& tiles, T softcap, Index count) {
  const Vec<T> most = splat<T>(softcap), inverse = splat<T>(1 / softcap);
  for (Index i = 0; i < count; i += kLanes<T>) {
    const Vec<T> t = tanh_of<T>(load(tiles.scores + i) * inverse);
    store(tiles.scores + i, most * t);
    if (tiles.slope != nullptr) store(tiles.slope + i, splat<T>(1) - t * t);
  }
}

// scores -= slope * |position - key|.
template <class T> void add_distance(T* scores, const RowBlock<T>& block, Index key, Index n) {
  T position[kBlockRows<T>], slope[kBlockRows<T>];
  for (Index lane = 0; lane < block.width; ++lane) {
    position[lane] = static_cast<T>(block.position[lane] - key);
    slope[lane] = block.problem->slopes[block.head[lane]];
  }
  for (Index j = 0; j < n; ++j) {
    const Vec<T> at = splat<T>(static_cast<T>(j));
    for (Index lane = 0; lane < block.width; lane += kLanes<T>) {
      T* s = scores + j * block.width + lane;
      store(s, load(s) - load(slope + lane) * absolute(load(position + lane) - at));
    }
  }
}

// scores += bias; a bias of -inf stays -inf whatever the score is.
template <class T> void add_bias(ScoreTiles<T>& tiles, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
  const bool one_row = one_bias_row(block);
  if (!one_row && p.bias.key == 1) {
    const T* rows[kBlockRows<T>];
    for (Index lane = 0; lane < width; ++lane)
      rows[lane] = p.bias.at(block.batch, block.head[lane], block.query[lane], key);
    columns_from_rows(tiles.scratch, width, rows, width, n);
  } else if (!one_row) {
    for (Index j = 0; j < n; ++j)
      for (Index lane = 0; lane < width; ++lane)
        tiles.scratch[j * width + lane] = *p.bias.at(block.batch, block.head[lane], block.query[lane], key + j);
  }
  for (Index j = 0; j < n; ++j) {
    const T* line = tiles.scratch + j * width;
    const Vec<T> all = one_row ? splat<T>(*p.bias.at(block.batch, block.head[0], 0, key + j)) : Vec<T>{};
    for (Index lane = 0; lane < width; lane += kLanes<T>) {
      T* s = tiles.scores + j * width + lane;
      const Vec<T> bias = one_row ? all : load(line + lane);
      store(s, select(bias == lowest, lowest, load(s) + bias));
    }
  }
}

}  // namespace

template <class T>
void set_rows(RowBlock<T>& block, const AttentionProblem<T>& problem, Index batch, Index kv_head, Index begin,
              Index end) {
  const Index group = problem.heads / problem.kv_heads;
  block.problem = &problem;
  block.batch = batch;
  block.kv_head = kv_head;
  block.rows = end - begin;
  block.vectors = (block.rows + kLanes<T> - 1) / kLanes<T>;
  block.width = block.vectors * kLanes<T>;
  block.first = problem.keys;
  block.last = 0;
  block.common = 0;
  block.common_end = problem.keys;
  const bool rows_differ = problem.causal || problem.left >= 0 || problem.right >= 0 || problem.slopes != nullptr ||
                           (problem.valid_lens != nullptr && problem.valid_query != 0);
  Index head = begin / problem.queries, query = begin % problem.queries;
  for (Index lane = 0; lane < block.width; ++lane) {
    block.head[lane] = kv_head * group + head;
    block.query[lane] = query;
    if (lane + 1 < block.rows && ++query == problem.queries) {
      query = 0;
      ++head;
    }
    if (lane > 0 && !rows_differ) {
      block.low[lane] = block.low[0];
      block.high[lane] = block.high[0];
      continue;
    }
    set_limits(block, lane);
    if (block.low[lane] < block.high[lane]) {
      block.first = smaller(block.first, block.low[lane]);
      block.last = larger(block.last, block.high[lane]);
    }
    block.common = larger(block.common, block.low[lane]);
    block.common_end = smaller(block.common_end, block.high[lane]);
  }
  if (problem.fill) {
    block.first = 0;
    block.last = problem.keys;
  }
  block.same_head = block.head[0] == block.head[block.width - 1];
}

template <class T>
PackedKeys<T>::PackedKeys(const AttentionProblem<T>& p, Index batch, Index kv_head, T* memory) : problem(p) {
  if (!wanted(p)) {
    to = p.keys;
    return;
  }
  key_ = p.key.at(batch, kv_head, 0);
  value_ = p.value.at(batch, kv_head, 0);
  key_stride_ = p.key.position;
  value_stride_ = p.value.position;
  problem.key = {memory, 0, 0, p.key_size};
  problem.value = {memory + p.keys * p.key_size, 0, 0, p.value_size};
}

template <class T> void PackedKeys<T>::copy(Index first, Index last) {
  const Index d = problem.key_size, dv = problem.value_size;
  T* keys = const_cast<T*>(problem.key.data);
  T* values = const_cast<T*>(problem.value.data);
  for (Index j = first; j < last; ++j) {
    memcpy(keys + j * d, key_ + j * key_stride_, sizeof(T) * d);
    if (dv > 0) memcpy(values + j * dv, value_ + j * value_stride_, sizeof(T) * dv);
  }
}

template <class T> void PackedKeys<T>::include(Index first, Index last) {
  if (first >= last) return;
  if (from == to) from = to = first;
  if (first < from) copy(first, from);
  if (last > to) copy(to, last);
  from = smaller(from, first);
  to = larger(to, last);
}

template <class T> void load_queries(T* queries, const RowBlock<T>& block) {
  const AttentionProblem<T>& p = *block.problem;
  const T* rows[kBlockRows<T>];
  for (Index lane = 0; lane < block.width; ++lane)
    rows[lane] = p.query.at(block.batch, block.head[lane], block.query[lane]);
  const Vec<T> scale = splat<T>(p.scale);
  if (block.few()) {
    const Index line = padded<T>(p.key_size);
    for (Index row = 0; row < block.rows; ++row)
      for (Index i = 0; i < line; i += kLanes<T>) {
        const bool whole = i + kLanes<T> <= p.key_size;
        store(queries + row * line + i,
              (whole ? load(rows[row] + i) : load_part(rows[row] + i, p.key_size - i)) * scale);
      }
    return;
  }
  columns_from_rows(queries, block.width, rows, block.rows, p.key_size);
  for (Index i = 0; i < p.key_size * block.width; i += kLanes<T>) store(queries + i, load(queries + i) * scale);
}

template <class T>
void block_scores(ScoreTiles<T>& tiles, const RowBlock<T>& block, const T* queries, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  if (block.few())
    few_scores(tiles.scores, width, queries, block.key(key), p.key.position, block.rows, n, p.key_size);
  else
    product(Into::replace, tiles.scores, width, static_cast<const T*>(nullptr), block.key(key), p.key.position, queries,
            width, n, p.key_size, block.vectors);
  if (p.softcap != 0) cap(tiles, p.softcap, n * width);
  if (p.slopes != nullptr) add_distance(tiles.scores, block, key, n);
  if (p.bias.data != nullptr) add_bias(tiles, block, key, n);
  const bool fill_bias = p.fill && p.bias.data != nullptr;
  tiles.all_allowed = !fill_bias && p.mask.data == nullptr && key >= block.common && key + n <= block.common_end;
  if (tiles.all_allowed) return;
  allow_limits(tiles, block, key, n);
  if (p.mask.data != nullptr) allow_mask(tiles, block, key, n);
  if (fill_bias) allow_bias(tiles, block, key, n);
  const Vec<T> otherwise = splat<T>(p.fill ? p.masked_value : static_cast<T>(-INFINITY));
  for (Index i = 0; i < n * width; i += kLanes<T>) {
    Mask<T> mask;
    __builtin_memcpy(&mask, tiles.allowed + i, sizeof mask);
    store(tiles.scores + i, select(mask, load(tiles.scores + i), otherwise));
  }
}

template <class T> void block_dropout(T* weights, const RowBlock<T>& block, Index key, Index n) {
  const AttentionProblem<T>& p = *block.problem;
  const Index width = block.width;
  const T factor = p.dropout < 1 ? static_cast<T>(1 / (1 - p.dropout)) : T(0);
  if (p.dropout_keep.data != nullptr) {
    for (Index lane = 0; lane < width; ++lane) {
      const bool* keep = p.dropout_keep.at(block.batch, block.head[lane], block.query[lane], key);
      for (Index j = 0; j < n; ++j) {
        T& w = weights[j * width + lane];
        w = keep[j * p.dropout_keep.key] ? w * factor : T(0);
      }
    }
    return;
  }
  const uint32_t threshold = counter_threshold(p.dropout);
  uint32_t first[kBlockRows<T>], second[kBlockRows<T>];
  for (Index lane = 0; lane < width; ++lane) {
    const CounterRow row = counter_row(p.dropout_key, static_cast<uint64_t>(block.batch * p.heads + block.head[lane]),
                                       static_cast<uint64_t>(block.query[lane]));
    first[lane] = row.first;
    second[lane] = row.second;
  }
  for (Index j = 0; j < n; ++j) {
    T* line = weights + j * width;
    const uint32_t column = static_cast<uint32_t>(key + j);
    for (Index lane = 0; lane < width; ++lane) {
      const bool keep = counter_keep({first[lane], second[lane]}, column, threshold);
      line[lane] = keep ? line[lane] * factor : T(0);
    }
  }
}

#define QKV_INSTANTIATE(T)                                                                      \
  template struct PackedKeys<T>;                                                                \
  template void set_rows(RowBlock<T>&, const AttentionProblem<T>&, Index, Index, Index, Index); \
  template void load_queries(T*, const RowBlock<T>&);                                           \
  template void block_scores(ScoreTiles<T>&, const RowBlock<T>&, const T*, Index, Index);       \
  template void block_dropout(T*, const RowBlock<T>&, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
