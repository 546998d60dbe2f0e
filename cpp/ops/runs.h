// Elementwise loops over two arrays that broadcast against each other.
#pragma once

#include <algorithm>

#include "core/parallel.h"
#include "ops/strides.h"

namespace qkv::ops {

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
      body(y.data<Y>() + row * n, rows_of(left, a.data<A>(), 1), Index{1}, rows_of(right, b.data<B>(), 2), Index{1},
           count * n);
    }
  });
}

// body(y run, a run, step_a, b run, step_b, n) along the runs of y's shape, to which a and b broadcast.
template <class Y, class A, class B, class Body>
void for_each_run(const Array& y, const Array& a, const Array& b, Body body) {
  if (y.numel() == 0) return;
  const auto along = [&](Index n, Index step_a, Index step_b) {
    parallel_for(0, n, grain_for(1), [&](Index begin, Index end) {
      body(y.data<Y>() + begin, a.data<A>() + begin * step_a, step_a, b.data<B>() + begin * step_b, step_b,
           end - begin);
    });
  };
  // Arrays of equal shape, and single numbers, are one run; finding that out by Loops takes longer than small arrays
  // do.
  const auto runs_along = [&](const Array& x) { return x.numel() == y.numel() || x.numel() == 1; };
  if (runs_along(a) && runs_along(b)) return along(y.numel(), a.numel() == 1 ? 0 : 1, b.numel() == 1 ? 0 : 1);
  const Loops<3> loops(y.shape(), {row_major(y.shape()), broadcast_strides(a.shape(), y.shape()),
                                   broadcast_strides(b.shape(), y.shape())});
  const Index n = loops.run(), step_a = loops.run_stride(1), step_b = loops.run_stride(2);
  if (loops.rows() == 1) return along(n, step_a, step_b);
  constexpr Index kShort = 64;
  if (n < kShort && loops.sizes().size() == 2) return for_each_block<Y, A, B>(y, a, b, loops, body);
  parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
    loops.each_row(begin, end, [&](const std::array<Index, 3>& at) {
      body(y.data<Y>() + at[0], a.data<A>() + at[1], step_a, b.data<B>() + at[2], step_b, n);
    });
  });
}

}  // namespace qkv::ops
