// The weights of a panel by columns: ranges of keys of which the largest weight or the sum is wanted, not each weight.
#pragma once

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/query_tile.h"
#include "kernels/attention/transposes.h"

namespace qkv::kernels::QKV_ISA {

// A panel's weights by columns, of the steps of keys so far: for each step its largest scores, for each part of a
// column in it the largest or the sum of exp(score - largest then).
template <class T> struct ColumnParts {
  T* largest;  // (steps, width)
  T* value;    // (steps + columns, width)
  T* tile;     // (columns, width), what they come to

  ColumnParts() = default;
  ColumnParts(T* memory, const ColumnResult<T>& columns, const AttentionProblem<T>& p)
      : largest(memory),
        value(largest + steps(p) * kPanelWidth<T>),
        tile(value + (steps(p) + columns.count + 1) * kPanelWidth<T>) {}
  static Index steps(const AttentionProblem<T>& p) { return p.keys / key_step(p) + 2; }
  static Index elements(const ColumnResult<T>& columns, const AttentionProblem<T>& p) {
    return columns.count == 0 ? 0 : (2 * (steps(p) + columns.count) + 1) * kPanelWidth<T>;
  }
};

// f(column, from, to) for the parts of columns in keys [key, end), from `column` on, which becomes the first that a
// later step may see.
template <class F> void for_columns(const Index* starts, Index count, Index& column, Index key, Index end, F f) {
  while (column < count && starts[column + 1] <= key) ++column;
  for (Index x = column; x < count && starts[x] < end; ++x)
    f(x, starts[x] > key ? starts[x] : key, starts[x + 1] < end ? starts[x + 1] : end);
}

// How many parts of columns keys [key, end) have.
inline Index columns_in(const Index* starts, Index count, Index& column, Index key, Index end) {
  Index n = 0;
  for_columns(starts, count, column, key, end, [&](Index, Index, Index) { ++n; });
  return n;
}

// value = of lines [from, to) of a tile of exp(score - largest), 0 outside the step's parts.
template <class T>
void reduce_lines(T* value, const T* tile, const KeyStep& step, const RowBlock<T>& rows, Index from, Index to,
                  bool largest) {
  for (Index v = 0; v < rows.vectors; ++v) store(value + v * kLanes<T>, Vec<T>{});
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    const Index begin = from > part.from ? from : part.from, end = to < part.to ? to : part.to;
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      const T* line = tile + begin * rows.width + v * kLanes<T>;
      Vec<T> x[4] = {};
      Index j = begin;
      for (; j + 4 <= end; j += 4, line += 4 * rows.width)
#pragma GCC unroll 4
        for (Index k = 0; k < 4; ++k) {
          const Vec<T> w = load(line + k * rows.width);
          x[k] = largest ? maximum(w, x[k]) : x[k] + w;
        }
      for (; j < end; ++j, line += rows.width) x[0] = largest ? maximum(load(line), x[0]) : x[0] + load(line);
      store(value + v * kLanes<T>,
            largest ? maximum(maximum(x[0], x[1]), maximum(x[2], x[3])) : (x[0] + x[1]) + (x[2] + x[3]));
    }
  }
}

// What a step of a panel leaves for its columns; nothing but zeros if it has no part of it.
template <class T>
void leave_columns(const ColumnParts<T>& to, const ColumnResult<T>& columns, const RowBlock<T>& rows,
                   const OnlineSoftmax<T>& softmax, const KeyStep& keys, const T* scores, Index column, Index step,
                   Index part, Index key, Index n) {
  const Index width = rows.width;
  memcpy(to.largest + step * width, softmax.largest, sizeof(T) * width);
  T* value = to.value + part * width;
  for_columns(columns.starts, columns.count, column, key, key + n, [&](Index, Index from, Index end) {
    reduce_lines(value, scores, keys, rows, from - key, end - key, columns.largest);
    value += width;
  });
}

// The rows' columns, from the parts that the steps of keys [first, last) left behind, when the sums are known.
template <class T>
void write_columns(const ColumnResult<T>& columns, const ColumnParts<T>& parts, const RowBlock<T>& rows,
                   const OnlineSoftmax<T>& softmax, Index first, Index last) {
  const AttentionProblem<T>& p = *rows.problem;
  const Index size = key_step(p), width = rows.width;
  T* to[kPanelWidth<T>];
  for (Index row = 0; row < rows.rows; ++row) {
    to[row] = columns.to.at(rows.batch, rows.head[row], rows.query[row], 0);
  }
  for (Index i = 0; i < columns.count * width; i += kLanes<T>) store(parts.tile + i, Vec<T>{});
  const T *largest = parts.largest, *value = parts.value;
  Index column = 0;
  for (Index key = first; key < last; key += size, largest += width) {
    alignas(64) T factor[kPanelWidth<T>];
    for (Index lane = 0; lane < rows.vectors * kLanes<T>; lane += kLanes<T>)
      store(factor + lane,
            weight_of<T>(load(largest + lane) - load(softmax.largest + lane)) * load(softmax.inverse + lane));
    const Index end = p.keys - key < size ? p.keys : key + size;
    for_columns(columns.starts, columns.count, column, key, end, [&](Index x, Index, Index) {
      T* tile = parts.tile + x * width;
      for (Index lane = 0; lane < rows.vectors * kLanes<T>; lane += kLanes<T>) {
        const Vec<T> part = load(value + lane), none = {};
        const Vec<T> w = select(part == none, none, part * load(factor + lane)), before = load(tile + lane);
        store(tile + lane, columns.largest ? maximum(w, before) : before + w);
      }
      value += width;
    });
  }
  T one[kPanelWidth<T>];
  for (T& factor : one) factor = 1;
  rows_from_columns(to, parts.tile, width, one, rows.rows, columns.count);
}

}  // namespace qkv::kernels::QKV_ISA
