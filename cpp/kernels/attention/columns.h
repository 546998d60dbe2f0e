// The weights of a panel by columns: ranges of keys of which the largest weight or the sum is wanted, not each weight.
#pragma once

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/query_tile.h"
#include "kernels/attention/transposes.h"

namespace qkv::kernels::QKV_ISA {

// value = of lines [from, to) of a tile of exp(score - largest), 0 outside the step's parts.
template <class T>
void reduce_lines(T* value, const T* tile, const KeyStep& step, const RowBlock<T>& rows, Index from, Index to,
                  bool largest) {
  for (Index v = 0; v < rows.vectors; ++v) store(value + v * kLanes<T>, Vec<T>{});
  for (Index i = 0; i < step.count; ++i) {
    const StepPart& part = step.part[i];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      const Index begin = at_least(from, part.from), end = at_most(to, part.from + part.keys_of[v]);
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

// A panel's weights by columns, of the steps of keys so far: for each step its largest scores, for each part of a
// column in it the largest or the sum of exp(score - largest then).
template <class T> class ColumnParts {
 public:
  ColumnParts() = default;
  ColumnParts(T* memory, const ColumnResult<T>& columns, const AttentionProblem<T>& p)
      : columns_(&columns),
        largest_(memory),
        value_(largest_ + steps(p) * kPanelWidth<T>),
        tile_(value_ + (steps(p) + columns.count + 1) * kPanelWidth<T>) {}
  static Index elements(const ColumnResult<T>& columns, const AttentionProblem<T>& p) {
    return columns.count == 0 ? 0 : (2 * (steps(p) + columns.count) + 1) * kPanelWidth<T>;
  }

  // What a step of keys [key, key + n) leaves; nothing but zeros if the panel has no part of it.
  void leave(const RowBlock<T>& rows, const OnlineSoftmax<T>& softmax, const KeyStep& step, const T* scores, Index key,
             Index n) {
    memcpy(largest_ + step_++ * rows.width, softmax.largest, sizeof(T) * rows.width);
    for_columns(key, key + n, [&](Index, Index from, Index end) {
      reduce_lines(value_ + part_++ * rows.width, scores, step, rows, from - key, end - key, columns_->largest);
    });
  }

  // The rows' columns, from what the steps of keys [first, last) left, when the sums are known.
  void write(const RowBlock<T>& rows, const OnlineSoftmax<T>& softmax, Index first, Index last) {
    const AttentionProblem<T>& p = *rows.problem;
    const Index size = key_step(p), width = rows.width;
    for (Index i = 0; i < columns_->count * width; i += kLanes<T>) store(tile_ + i, Vec<T>{});
    const T *largest = largest_, *value = value_;
    column_ = 0;
    for (Index key = first; key < last; key += size, largest += width) {
      alignas(64) T factor[kPanelWidth<T>];
      for (Index lane = 0; lane < rows.vectors * kLanes<T>; lane += kLanes<T>)
        store(factor + lane,
              weight_of<T>(load(largest + lane) - load(softmax.largest + lane)) * load(softmax.inverse + lane));
      for_columns(key, at_most(p.keys, key + size), [&](Index x, Index, Index) {
        T* tile = tile_ + x * width;
        for (Index lane = 0; lane < rows.vectors * kLanes<T>; lane += kLanes<T>) {
          const Vec<T> part = load(value + lane), none = {};
          const Vec<T> w = select(part == none, none, part * load(factor + lane)), before = load(tile + lane);
          store(tile + lane, columns_->largest ? maximum(w, before) : before + w);
        }
        value += width;
      });
    }
    T* to[kPanelWidth<T>];
    for (Index row = 0; row < rows.rows; ++row)
      to[row] = columns_->to.at(rows.batch, rows.head[row], rows.query[row], 0);
    rows_from_columns<T>(to, tile_, width, nullptr, rows.rows, columns_->count);
  }

 private:
  static Index steps(const AttentionProblem<T>& p) { return p.keys / key_step(p) + 2; }
  // f(column, from, to) for the parts of columns in keys [key, end), which come in order.
  template <class F> void for_columns(Index key, Index end, F f) {
    const Index *starts = columns_->starts, count = columns_->count;
    while (column_ < count && starts[column_ + 1] <= key) ++column_;
    for (Index x = column_; x < count && starts[x] < end; ++x)
      f(x, at_least(starts[x], key), at_most(starts[x + 1], end));
  }

  const ColumnResult<T>* columns_ = nullptr;
  T* largest_ = nullptr;  // (steps, width)
  T* value_ = nullptr;    // (steps + columns, width)
  T* tile_ = nullptr;     // (columns, width), what they come to
  // The first column that a later step may see; how many steps and parts were left.
  Index column_ = 0, step_ = 0, part_ = 0;
};

}  // namespace qkv::kernels::QKV_ISA
