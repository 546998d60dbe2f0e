#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {
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
  const bool rows_differ = differ_by_query(problem);
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
    const KeyRange range = keys_of(problem, batch, block.query[lane], problem.keys);
    block.low[lane] = range.low;
    block.high[lane] = range.high;
  }
  block.first = problem.keys;
  block.last = 0;
  for (Index v = 0; v < block.vectors; ++v) {
    Index any_low = problem.keys, any_high = 0, all_low = 0, all_high = problem.keys;
    for (Index lane = v * kLanes<T>; lane < (v + 1) * kLanes<T>; ++lane) {
      if (block.low[lane] < block.high[lane]) {
        any_low = at_most(any_low, block.low[lane]);
        any_high = at_least(any_high, block.high[lane]);
      }
      all_low = at_least(all_low, block.low[lane]);
      all_high = at_most(all_high, block.high[lane]);
    }
    block.any_low[v] = any_low;
    block.any_high[v] = any_high;
    block.all_low[v] = all_low;
    block.all_high[v] = all_high;
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
  block.first = at_most(block.first, block.last);  // the last step may end behind the last key
}

template <class T> void load_queries(T* queries, const RowBlock<T>& block) {
  const AttentionProblem<T>& p = *block.problem;
  const T* rows[kPanelWidth<T>];
  for (Index lane = 0; lane < block.width; ++lane)
    rows[lane] = p.query.at(block.batch, block.head[lane], block.query[lane]);
  if (block.is_decode()) {
    const Vec<T> scale = splat<T>(p.scale);
    const Index line = padded<T>(p.key_size);
    for (Index row = 0; row < block.rows; ++row)
      for (Index i = 0; i < line; i += kLanes<T>) {
        const bool whole = i + kLanes<T> <= p.key_size;
        store(queries + row * line + i,
              (whole ? load(rows[row] + i) : load_part(rows[row] + i, p.key_size - i)) * scale);
      }
    return;
  }
  columns_from_rows(queries, block.width, rows, block.vectors * kLanes<T>, block.rows, p.key_size, p.scale);
}

template <class T> void zero_outside(T* tile, const KeyStep& step, const RowBlock<T>& block) {
  const Index vectors = block.width / kLanes<T>;  // those behind the panel's last row, too
  if (step.whole(vectors)) return;
  Index from[kMaxVectors] = {}, to[kMaxVectors] = {};
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      from[v] = part.from;
      to[v] = part.to;
    }
  }
  for (Index v = 0; v < vectors; ++v) {
    T* column = tile + v * kLanes<T>;
    for (Index j = 0; j < from[v]; ++j) store(column + j * block.width, Vec<T>{});
    for (Index j = to[v]; j < step.n; ++j) store(column + j * block.width, Vec<T>{});
  }
}

#define QKV_INSTANTIATE(T)                                                                      \
  template void set_rows(RowBlock<T>&, const AttentionProblem<T>&, Index, Index, Index, Index); \
  template void load_queries(T*, const RowBlock<T>&);                                           \
  template void zero_outside(T*, const KeyStep&, const RowBlock<T>&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
