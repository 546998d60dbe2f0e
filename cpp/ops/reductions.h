// What reductions over axes share: which axes, and the passes over memory.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "core/parallel.h"
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

// By the two kernels that `choose` takes from the table, of rows and of columns.
template <class Choose> Array reduced(const Array& input, const ReducedAxes& p, Choose choose) {
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
