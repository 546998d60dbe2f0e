// Elementwise loops over two arrays that broadcast against each other.
#pragma once

#include "core/parallel.h"
#include "ops/strides.h"

namespace qkv::ops {

// body(y run, a run, step_a, b run, step_b, n) along the runs of y's shape, to which a and b broadcast.
template <class Y, class A, class B, class Body>
void for_each_run(const Array& y, const Array& a, const Array& b, Body body) {
  if (y.numel() == 0) return;
  const Loops<3> loops(y.shape(), {row_major(y.shape()), broadcast_strides(a.shape(), y.shape()),
                                   broadcast_strides(b.shape(), y.shape())});
  Y* out = y.data<Y>();
  const A* left = a.data<A>();
  const B* right = b.data<B>();
  const Index n = loops.run(), step_a = loops.run_stride(1), step_b = loops.run_stride(2);
  if (loops.rows() == 1) {
    parallel_for(0, n, grain_for(1), [&](Index begin, Index end) {
      body(out + begin, left + begin * step_a, step_a, right + begin * step_b, step_b, end - begin);
    });
    return;
  }
  parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
    loops.each_row(begin, end, [&](const std::array<Index, 3>& at) {
      body(out + at[0], left + at[1], step_a, right + at[2], step_b, n);
    });
  });
}

}  // namespace qkv::ops
