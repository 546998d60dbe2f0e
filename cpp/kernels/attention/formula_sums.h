// Instructions of a formula that add to the gradients of its leaves.
#pragma once

#include "kernels/attention/formula_run.h"

namespace qkv::kernels::QKV_ISA {

// Where row `lane`'s row of a table begins.
template <class T> inline Index row_begin(const FormulaLeaf<T>& leaf, const RowBlock<T>& block, Index lane) {
  return static_cast<Index>(leaf.begins[block.batch * leaf.batch + block.head[lane] * leaf.head +
                                        (leaf.level == LeafLevel::query ? block.query[lane] : 0)]);
}

// Numbers of a table that one pair may read.
template <class T> inline Index table_size(const FormulaLeaf<T>& leaf) {
  return leaf.head != 0 ? leaf.head : leaf.batch != 0 ? leaf.batch : leaf.size;
}

// Sums of gradients, those of several lines or lanes in the tile's order first.
template <class T> void add_to_lanes(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  for (Index v = 0; v < r.part->vectors; ++v) {
    Vec<T> sum = load(s.sums + v * kLanes<T>);  // continues where the last strip, of as many lines as fit, ended
    for (Index l = 0; l < r.lines; ++l) sum += load(s.a.p + v * s.a.vector + l * s.a.line);
    store(s.sums + v * kLanes<T>, sum);
  }
}

// f(number, lane, line of the strip) for the pairs of a strip.
template <class T, class F> inline void each_number(const FormulaOperand<T>& a, const FormulaRun<T>& r, F f) {
  for (Index l = 0; l < r.lines; ++l)
    for (Index i = 0; i < r.rows(); ++i) f(a.p[l * a.line + i / kLanes<T> * a.vector + i % kLanes<T>], r.lane() + i, l);
}

template <class T> inline T* sum_of(const FormulaRun<T>& r, const FormulaInstruction& in, Index head) {
  const LeafGradient<T>& d = r.dleaves[in.leaf];
  return d.data + r.block->batch * d.batch + head * d.head;
}

template <class T> void add_to_keys(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const RowBlock<T>& block = *r.block;
  if (!block.same_head)
    return each_number(s.a, r,
                       [&](T x, Index lane, Index l) { sum_of(r, *s.in, block.head[lane])[r.key + r.line + l] += x; });
  T* to = sum_of(r, *s.in, block.head[0]) + r.key + r.line;
  for (Index l = 0; l < r.lines; ++l) {
    Vec<T> sum[kParts] = {};  // a line of queries, in the order of all sums
    for (Index v = 0; v < r.part->vectors; ++v) {
      const Vec<T> x = load(s.a.p + v * s.a.vector + l * s.a.line);
#pragma GCC unroll 4
      for (int p = 0; p < kParts; ++p)  // in registers
        if ((r.part->vector + v) % kParts == p) sum[p] += x;
    }
    to[l] += horizontal_sum<T>(folded<T>(sum));
  }
}

// An array for each line modulo the numbers of 64 bytes, in which a diagonal comes once, at every level: then a
// line's vectors meet those that were stored whole, not parts of two.
template <class T> void add_to_diagonals(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const RowBlock<T>& block = *r.block;
  if (!block.same_head)
    return each_number(s.a, r, [&](T x, Index lane, Index l) {
      sum_of(r, *s.in, block.head[lane])[block.query[lane] - (r.key + r.line + l) + block.problem->keys - 1] += x;
    });
  for (Index v = 0; v < r.part->vectors; ++v)
    for (Index l = 0; l < r.lines; ++l) {
      const Index line = r.line + l;
      T* to = s.sums + line % kLineNumbers<T> * kDiagonals<T> + v * kLanes<T> - line + kBlockKeys;
      store(to, load(to) + load(s.a.p + v * s.a.vector + l * s.a.line));
    }
}

// A short table has four copies here, for lanes modulo 4: additions to one number wait for each other less often.
constexpr Index kTableCopies = 4;
template <class T> inline bool has_copies(const FormulaInstruction& in, const Formula<T>& f, const RowBlock<T>& block) {
  if (in.op != FormulaOp::scatter) return false;
  const FormulaLeaf<T>& leaf = f.leaves[in.leaf];
  const Index n = table_size(leaf);
  return n <= 256 && (block.same_head || leaf.head == 0);
}

template <class T> void add_to_table(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const RowBlock<T>& block = *r.block;
  const bool copied = has_copies(*s.in, *r.formula, block);
  const bool one_table = block.same_head || r.dleaves[s.in->leaf].head == 0;
  T* first = copied ? s.sums : sum_of(r, *s.in, block.head[0]);
  const Index apart = copied ? table_size(r.formula->leaves[s.in->leaf]) : 0;
  for (Index l = 0; l < r.lines; ++l)
    for (Index lane = 0; lane < r.rows(); lane += kLanes<T>) {
      const Index vector = lane / kLanes<T>, lanes = at_most(r.rows() - lane, kLanes<T>);
      const T *places = s.a.p + l * s.a.line + vector * s.a.vector, *x = s.b.p + l * s.b.line + vector * s.b.vector;
      for (Index i = 0; i < lanes; ++i) {
        typename VectorTypes<T>::Integer at;
        memcpy(&at, places + i, sizeof at);
        T* table = one_table ? first + i % kTableCopies * apart : sum_of(r, *s.in, block.head[r.lane() + lane + i]);
        table[at] += x[i];
      }
    }
}

template <class T> void add_to_rows(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const FormulaLeaf<T>& begins = r.formula->leaves[s.in->a];
  alignas(64) T numbers[kStrip<T>];
  T* lines[kPanelWidth<T>];
  for (Index i = 0; i < r.rows(); ++i) lines[i] = numbers + i * r.lines;
  rows_from_columns<T>(lines, s.b.p, r.block->width, nullptr, r.rows(), r.lines);
  for (Index i = 0; i < r.rows(); ++i) {
    T* to = sum_of(r, *s.in, 0) + row_begin(begins, *r.block, r.lane() + i) + r.key + r.line;
    for (Index l = 0; l < r.lines; ++l) to[l] += lines[i][l];
  }
}

// After the last strip: what was summed in the tile's order goes to the leaf.
template <class T> void finish_sums(const BoundInstruction<T>& s, const FormulaRun<T>& r) {
  const RowBlock<T>& block = *r.block;
  if (s.in->op == FormulaOp::add_lanes) {
    const bool by_query = r.formula->leaves[s.in->leaf].level == LeafLevel::query;
    for (Index i = 0; i < r.rows(); ++i) {
      const Index lane = r.lane() + i;
      sum_of(r, *s.in, block.head[lane])[by_query ? block.query[lane] : 0] += s.sums[i];
    }
  } else if (has_copies(*s.in, *r.formula, block)) {
    T* to = sum_of(r, *s.in, block.head[0]);
    const Index n = table_size(r.formula->leaves[s.in->leaf]);
    for (Index i = 0; i < n; ++i) to[i] += (s.sums[i] + s.sums[n + i]) + (s.sums[2 * n + i] + s.sums[3 * n + i]);
  } else if (s.in->op == FormulaOp::add_diagonals && block.same_head) {
    T* to = sum_of(r, *s.in, block.head[0]) + block.query[r.lane()] - r.key + block.problem->keys - 1 - kBlockKeys;
    const Index end = kBlockKeys - r.part->from + r.rows();
    for (Index j = kBlockKeys - r.part->to + 1; j < end; j += kLanes<T>) {
      Vec<T> total = {};
      for (Index c = 0; c < kLineNumbers<T>; ++c) total += load(s.sums + c * kDiagonals<T> + j);
      if (j + kLanes<T> <= end) store(to + j, load(to + j) + total);
      else store_part(to + j, load_part(to + j, end - j) + total, end - j);
    }
  }
}

}  // namespace qkv::kernels::QKV_ISA
