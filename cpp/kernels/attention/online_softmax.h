// The softmax of a panel, step of keys by step: the largest score and the sum so far.
#pragma once

#include <math.h>

#include "kernels/matmul/microkernel.h"
#include "kernels/simd/weight_of.h"

namespace qkv::kernels::QKV_ISA {

// Largest score so far, sum of exp(score - largest) and the factor by which the last step shrank what came before; a
// row per lane.
template <class T> struct OnlineSoftmax {
  alignas(64) T largest[kPanelWidth<T>];  // in the end 0 for empty rows
  alignas(64) T sum[kPanelWidth<T>];
  alignas(64) T factor[kPanelWidth<T>];
  alignas(64) T inverse[kPanelWidth<T>];  // in the end 1 / sum, 0 for empty rows

  // A vector of rows from `lane` on: its n scores, `width` apart, become exp(score - largest).
  void advance(Index lane, T* scores, Index width, Index n) {
    const Vec<T> lowest = splat<T>(static_cast<T>(-INFINITY));
    Vec<T> most[4] = {lowest, lowest, lowest, lowest};  // four, because a maximum takes four cycles
    const T* s = scores;
    Index j = n >> 2;
    for (; j > 0; --j, s += 4 * width)
#pragma GCC unroll 4
      for (Index i = 0; i < 4; ++i) most[i] = maximum(load(s + i * width), most[i]);
    for (j = n & 3; j > 0; --j, s += width) most[0] = maximum(load(s), most[0]);
    const Vec<T> before = load(largest + lane);
    const Vec<T> now = maximum(maximum(maximum(most[0], most[1]), maximum(most[2], most[3])), before);
    const Vec<T> base = select(now == lowest, Vec<T>{}, now);
    // Key j is added to total[j % 4], so that keys after the last, whose weights are 0, change nothing.
    Vec<T> total[4] = {};
    each_weight<T>(scores, width, n, base, [&](T* at, Vec<T> w, Index i) {
      store(at, w);
      total[i] += w;
    });
    const Vec<T> shrunk = weight_of<T>(before - base);
    store(factor + lane, shrunk);
    store(largest + lane, now);
    store(sum + lane, fused(load(sum + lane), shrunk, (total[0] + total[1]) + (total[2] + total[3])));
  }

  // For weights that are final as they are: nothing is divided.
  void divide_by_one(Index width) {
    for (Index lane = 0; lane < width; ++lane) {
      largest[lane] = 0;
      sum[lane] = factor[lane] = 1;
    }
  }

  void finish(Index width) {
    for (Index lane = 0; lane < width; ++lane) {
      const bool empty = sum[lane] == 0;
      inverse[lane] = empty ? T(0) : 1 / sum[lane];
      if (empty) largest[lane] = 0;
    }
  }
};

}  // namespace qkv::kernels::QKV_ISA
