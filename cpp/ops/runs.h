// Elementwise loops over two arrays that broadcast against each other.
#pragma once

#include <algorithm>

#include "autograd/strided.h"
#include "core/parallel.h"

namespace qkv::ops {

// y = f(a, b) of a run of numbers as for_each_run gives it.
template <class Y, class A, class B, class F>
void each_of_run(Y* y, const A* a, Index step_a, const B* b, Index step_b, Index n, F f) {
  if (step_a == 1 && step_b == 1)
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  else if (const B right = *b; step_a == 1 && step_b == 0)
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], right);
  else
    for (Index i = 0; i < n; ++i) y[i] = f(a[i * step_a], b[i * step_b]);
}

// for_each_run for a matrix y whose rows are so short that a call for each would cost more than its numbers: an operand
// that is not as large as y is repeated into a block of whole rows, and the body gets blocks.
template <class Y, class A, class B, class Body>
void for_each_block(const Array& y, const Array& a, const Array& b, const Loops<3>& loops, Body body) {
  constexpr Index kBlock = 1024;
  const Index n = loops.run(), together = kBlock / n;
  parallel_for(0, loops.rows(), std::max(together, grain_for(n)), [&](Index begin, Index end) {
    A left[kBlock];
    B right[kBlock];
    for (Index row = begin; row < end; row += together) {
      const Index count = std::min(together, end - row);
      const auto rows_of = [&](auto* block, const auto* numbers, std::size_t operand) {
        const Index stride = loops.strides(operand)[0], step = loops.run_stride(operand);
        if (stride == n && step == 1) return numbers + row * n;
        for (Index r = 0; r < count && (stride != 0 || row == begin); ++r)  // equal rows stay from block to block
          for (Index i = 0; i < n; ++i) block[r * n + i] = numbers[(row + r) * stride + i * step];
        return static_cast<decltype(numbers)>(block);
      };
      body(y.data<Y>() + row * n, rows_of(left, a.first_as<A>(), 1), Index{1}, rows_of(right, b.first_as<B>(), 2),
           Index{1}, count * n);
    }
  });
}

// x, or a packed copy if the numbers of its last axis are not one after the other, nor in one place: kernels take
// runs of such alone.
inline Array in_runs(const Array& x) {
  if (x.is_packed()) return x;
  const Strides strides = x.strides();
  for (std::size_t axis = strides.size(); axis-- > 0;)
    if (x.shape()[axis] > 1) return strides[axis] == 0 || strides[axis] == 1 ? x : gathered(x);
  return x;
}

// body(y run, a run, step_a, b run, step_b, n) along the runs of y's shape, to which a and b broadcast; steps are 0
// or 1.
template <class Y, class A, class B, class Body>
void for_each_run(const Array& y, const Array& left, const Array& right, Body body) {
  if (y.numel() == 0) return;
  if (!left.is_packed() || !right.is_packed()) {
    const Array a = in_runs(left), b = in_runs(right);
    if (!a.is(left) || !b.is(right)) return for_each_run<Y, A, B>(y, a, b, body);
  }
  const Array &a = left, &b = right;
  const auto along = [&](Index n, Index step_a, Index step_b) {
    parallel_for(0, n, grain_for(1), [&](Index begin, Index end) {
      body(y.data<Y>() + begin, a.first_as<A>() + begin * step_a, step_a, b.first_as<B>() + begin * step_b, step_b,
           end - begin);
    });
  };
  // Arrays of equal shape, and single numbers, are one run; finding that out by Loops takes longer than small arrays
  // do.
  const auto runs_along = [&](const Array& x) { return (x.numel() == y.numel() && x.is_packed()) || x.numel() == 1; };
  if (runs_along(a) && runs_along(b)) return along(y.numel(), a.numel() == 1 ? 0 : 1, b.numel() == 1 ? 0 : 1);
  const Loops<3> loops(y.shape(), {row_major(y.shape()), broadcast_strides(a.shape(), y.shape(), a.strides()),
                                   broadcast_strides(b.shape(), y.shape(), b.strides())});
  const Index n = loops.run(), step_a = loops.run_stride(1), step_b = loops.run_stride(2);
  if (loops.rows() == 1) return along(n, step_a, step_b);
  constexpr Index kShort = 64;
  if (n < kShort && loops.sizes().size() == 2) return for_each_block<Y, A, B>(y, a, b, loops, body);
  constexpr Index kTiny = 8;  // a copy takes less time than calls for so short rows
  if (n < kTiny) {
    const auto whole = [&](const Array& x) {
      return packed(x.view({y.shape(), broadcast_strides(x.shape(), y.shape(), x.strides())}));
    };
    return for_each_run<Y, A, B>(y, whole(a), whole(b), body);
  }
  parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
    loops.each_row(begin, end, [&](const std::array<Index, 3>& at) {
      body(y.data<Y>() + at[0], a.first_as<A>() + at[1], step_a, b.first_as<B>() + at[2], step_b, n);
    });
  });
}

}  // namespace qkv::ops
