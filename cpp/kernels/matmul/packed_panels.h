// What products with packed matrices share, for any type of packed numbers: tiles, panels, and how a tile ends.
#pragma once

#include "kernels/activation.h"
#include "kernels/matmul/microkernel.h"
#include "kernels/matmul/packed_product.h"
#include "kernels/simd/family.h"
#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {

// Rows of a tile: with kMaxVectors its sums take 24 of 32 or 12 of 16 registers. 12 x 2 was as fast on a core of its
// own and 10 % slower on one that it shares, because it takes more instructions per product.
constexpr int kTileRows = 6;
// Steps of the depth whose rows are at hand at a time; an even number. Each such stretch is a sum of its own, so that
// long sums stay exact.
constexpr Index kDepth = 512;

// The first n numbers of p, then zeros; n may be negative or more than there are lanes.
template <class T> inline Vec<T> load_some(const T* p, Index n) {
  return n >= kLanes<T> ? load(p) : n > 0 ? load_part(p, n) : Vec<T>{};
}

// y (R, V vectors), of which `columns` exist, = sum + bias, added to what is in y if `added`.
template <class T, int R, int V>
inline void store_tile(T* y, Index ldy, Vec<T> (&sum)[R][V], Index columns, bool added, const T* bias) {
  constexpr Index L = kLanes<T>;
  const bool whole = columns >= V * L;
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Index left = columns - v * L;
    const Vec<T> shift = bias == nullptr ? splat<T>(T(-0.0))
                         : whole         ? load(bias + v * L)
                                         : load_some(bias + v * L, left);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      T* to = y + r * ldy + v * L;
      if (added) sum[r][v] += whole ? load(to) : load_some(to, left);
      const Vec<T> value = sum[r][v] + shift;
      if (whole || left >= L) store(to, value);
      else if (left > 0) store_part(to, value, left);
    }
  }
}

template <class T> inline void activate_rows(const Epilogue<T>& epilogue, T* y, Index ldy, Index rows, Index width) {
  if (!epilogue.activates) return;
  const Activations<T> activation = kernels_of<Activations<T>>();
  for (Index r = 0; r < rows; ++r) activation.forward(epilogue.activation, y + r * ldy, y + r * ldy, T(0), width);
}

}  // namespace qkv::kernels::QKV_ISA
