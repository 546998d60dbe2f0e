// What reductions over axes share: which axes, and the passes over memory.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "core/reproducible.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {

// What a reduction over some axes does to a shape.
struct ReducedAxes {
  Shape kept;    // with 1 for each reduced axis
  Shape result;  // as the caller wants it
  Axes order;    // permutation that brings the reduced axes to the end
  std::vector<bool> reduced;
  Index rows = 1;    // numbers kept
  Index length = 1;  // numbers per row
};

// Checked in the operation's name; no axes are all of them.
ReducedAxes reduced_axes(const char* operation, const Shape& shape, const std::optional<Axes>& axes, bool keepdims);
// x with the reduced axes last, so that each row of `length` numbers is contiguous.
Array rows_of(const Array& x, const ReducedAxes& r);
// The same back: rows, which have as many numbers as x had, in the order of x's axes.
Array from_rows(const Array& rows, const ReducedAxes& r, const Shape& shape);

// An axis of an array: `outer` times n numbers, each `inner` numbers after the one before.
struct StridedLoop {
  Index outer, n, inner;
  StridedLoop(const Shape& shape, Index axis)
      : outer(shape.product(0, axis)), n(shape.dim(axis)), inner(shape.product(axis + 1, shape.rank())) {}
};

// The last run of neighbouring axes to be reduced, as the middle axis of (outer, n, inner).
struct Run {
  Index outer = 1, n = 1, inner = 1;
  std::size_t begin = 0, end = 0;  // axes; equal if there is none

  Run(const Shape& shape, const std::vector<bool>& reduced) {
    const auto kept = [&](std::size_t axis) { return !reduced[axis] && shape[axis] != 1; };
    end = shape.size();
    while (end > 0 && !reduced[end - 1]) inner *= shape[--end];
    begin = end;
    while (begin > 0 && !kept(begin - 1)) n *= shape[--begin];
    for (std::size_t axis = 0; axis < begin; ++axis) outer *= shape[axis];
  }
};

// One run of axes after the other, from the last, each in its own order: pass(x, run, shape of the result) gives the
// result of one. Nothing is transposed.
template <class Pass> Array by_runs(const Array& input, const ReducedAxes& p, Pass pass) {
  std::vector<bool> left(p.reduced);
  Shape shape = input.shape();
  Array x = input;
  for (Run run(shape, left); run.begin < run.end; run = Run(shape, left)) {
    for (std::size_t axis = run.begin; axis < run.end; ++axis) {
      shape[axis] = 1;
      left[axis] = false;
    }
    x = pass(x, run, shape);
  }
  return (x.buffer() == input.buffer() ? x.clone() : x).reshaped(p.result);
}

// In parallel: rows(to, from, count, n) for rows of n numbers, each of which becomes one, where a run is the last axis;
// else columns(to, from, step, n, width) for columns whose numbers lie `step` apart.
template <class Y, class X, class Rows, class Columns>
void each_line(Y* to, const X* from, const Run& run, Rows rows, Columns columns) {
  if (run.inner == 1)
    return parallel_for(0, run.outer, grain_for(run.n),
                        [&](Index begin, Index end) { rows(to + begin, from + begin * run.n, end - begin, run.n); });
  constexpr Index kColumns = 4096;
  const Index blocks = (run.inner + kColumns - 1) / kColumns;
  parallel_for(0, run.outer * blocks, grain_for(run.n * std::min(run.inner, kColumns)), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index outer = i / blocks, column = i % blocks * kColumns;
      columns(to + outer * run.inner + column, from + outer * run.n * run.inner + column, run.inner, run.n,
              std::min(kColumns, run.inner - column));
    }
  });
}

// One long row in pieces for the pool: part(piece of x, length) of each, in order, and the whole of them.
constexpr Index kPiece = 1 << 15;
inline bool is_long_row(const ReducedAxes& p) { return p.rows == 1 && p.length > kPiece; }

template <class Part> void each_piece(const Array& x, Part part) {
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, x.numel(), kPiece, [&](Index begin, Index end) {
      for (Index i = begin; i < end; i += kPiece) part(i / kPiece, x.data<T>() + i, std::min(kPiece, end - i));
    });
  });
}

inline std::size_t pieces_of(const Array& x) { return static_cast<std::size_t>((x.numel() + kPiece - 1) / kPiece); }

// Whether items of the first axis, which is kept, must be reduced as they would be if there were more of them.
inline bool keeps_items_alike(const ReducedAxes& p) {
  return reproducible() && !p.reduced.empty() && !p.reduced.front();
}

inline Index pieces_of_row(const ReducedAxes& p) { return std::max<Index>(1, (p.length + kPiece - 1) / kPiece); }

// y = n numbers of a region of memory from number `at` on, in order.
template <class T> void copy_run(T* y, const T* first, const Region& region, Index at, Index n) {
  const Loops<1> loops(region.shape, {region.strides});
  const Index run = loops.run(), step = loops.run_stride(0);
  Index skipped = at % run;
  loops.each_row(at / run, (at + n + run - 1) / run, [&](const std::array<Index, 1>& start) {
    const T* from = first + start[0] + skipped * step;
    const Index count = std::min(run - skipped, n);
    if (step == 1) std::copy_n(from, count, y);
    else
      for (Index i = 0; i < count; ++i) y[i] = from[i * step];
    y += count;
    n -= count;
    skipped = 0;
  });
}

// Whether x has more numbers than the memory that it is read from, as broadcast and unfolded views have: reductions
// read them by pieces, and copy none.
inline bool repeats_numbers(const Array& x) {
  if (x.is_packed()) return false;
  const Strides strides = x.strides();
  Index span = 1;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) span += (x.shape()[axis] - 1) * std::abs(strides[axis]);
  return x.numel() > span;
}

// Floating numbers, packed but where they repeat.
inline Tensor unrepeated(const Tensor& x) {
  return is_floating(x.dtype()) && repeats_numbers(x.data()) ? x : floating(x);
}

// The rows of such an array, with the reduced axes last: part(its number in the row, row, count, numbers, n) for
// `count` whole rows of n numbers, or for n numbers of one long row.
template <class Part> void each_repeated(const Array& x, const ReducedAxes& p, Part part) {
  const Strides own = x.strides();
  Region region;
  for (const Index axis : p.order) {
    region.shape.push_back(x.shape().dim(axis));
    region.strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  const Index pieces = pieces_of_row(p), length = std::min(p.length, kPiece),
              together = std::max<Index>(1, kPiece / length);
  visit_floating(x.dtype(), [&]<class T>(T) {
    const T* first = x.first_as<T>();
    parallel_for(0, p.rows * pieces, pieces > 1 ? 1 : together, [&](Index begin, Index end) {
      std::vector<T> numbers(static_cast<std::size_t>(together * length));
      for (Index at = begin, count; at < end; at += count) {
        const Index row = at / pieces, from = at % pieces * kPiece;
        count = pieces > 1 ? 1 : std::min(together, end - at);
        const Index n = std::min(length, p.length - from);
        copy_run(numbers.data(), first, region, row * p.length + from, count * n);
        part(at % pieces, row, count, numbers.data(), n);
      }
    });
  });
}

// By kernels of rows: parts of long rows are reduced as rows are.
template <class Choose> Array reduced_repeated(const Array& x, const ReducedAxes& p, Choose choose) {
  const Index pieces = pieces_of_row(p);
  const Array parts({p.rows, pieces}, x.dtype()), y(p.result, x.dtype());
  each_repeated(x, p, [&]<class T>(Index piece, Index row, Index count, const T* numbers, Index n) {
    choose(kernels::kernels<T>()).first(parts.data<T>() + row * pieces + piece, numbers, count, n);
  });
  if (pieces == 1) return parts.reshaped(p.result);
  visit_floating(x.dtype(), [&]<class T>(T) {
    choose(kernels::kernels<T>()).first(y.data<T>(), parts.data<T>(), p.rows, pieces);
  });
  return y;
}

// By the two kernels that `choose` takes from the table, of rows and of columns.
template <class Choose> Array reduced(const Array& input, const ReducedAxes& p, Choose choose) {
  if (repeats_numbers(input)) return reduced_repeated(input, p, choose);
  return by_runs(input, p, [&](const Array& x, const Run& run, const Shape& shape) {
    Array y(shape, x.dtype());
    visit_floating(x.dtype(), [&]<class T>(T) {
      const auto kernel = choose(kernels::kernels<T>());
      each_line(y.data<T>(), x.data<T>(), run, kernel.first, kernel.second);
    });
    return y;
  });
}

}  // namespace qkv::ops
