// What operations on the distances of each query to the keys share: one row at a time, and sums over rows.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "core/reproducible.h"
#include "kernels/kernels.h"
#include "ops/kernel_layout.h"

namespace qkv::ops {

// (B, L, D) to (B, D, L)
inline Array features_first(const Array& x) {
  const NoGrad quiet;
  return packed(swapaxes(Tensor(x), 1, 2).data());
}

// x (B, L, D) += y (B, pieces, D, L), summed over the pieces.
template <class T> void add_pieces(T* x, const T* y, Index batches, Index pieces, Index length, Index features) {
  for (Index b = 0; b < batches; ++b)
    for (Index p = 0; p < pieces; ++p, y += length * features)
      for (Index f = 0; f < features; ++f)
        for (Index j = 0; j < length; ++j) x[(b * length + j) * features + f] += y[f * length + j];
}

// Cuts the queries of each batch entry into pieces whose gradients for the keys are kept apart.
inline Index pieces_of(const PoolingSizes& n) {
  return n.batches < 8 || reproducible() ? std::clamp<Index>(n.queries / 16, 1, 8) : 1;
}

// Rows [begin, end) of one piece: body(row) for each.
template <class Body> void for_pieces(const PoolingSizes& n, Index cost, Body body) {
  const Index pieces = pieces_of(n), length = (n.queries + pieces - 1) / pieces;
  parallel_for(0, n.batches * pieces, grain_for(length * n.keys * cost), [&](Index first, Index last) {
    for (Index piece = first; piece < last; ++piece) {
      const Index b = piece / pieces, begin = piece % pieces * length;
      body(piece, b, b * n.queries + begin, b * n.queries + std::min(n.queries, begin + length));
    }
  });
}

template <class T> struct RowScratch {
  Scratch memory;
  double *squares, *coefficient;
  T *w, *dw;
  explicit RowScratch(Index keys) : memory(static_cast<std::size_t>(keys) * 2 * (sizeof(double) + sizeof(T))) {
    squares = memory.as<double>();
    coefficient = squares + keys;
    w = reinterpret_cast<T*>(coefficient + keys);
    dw = w + keys;
  }
};

template <class T> struct Zeros : Scratch {
  explicit Zeros(Index count) : Scratch(static_cast<std::size_t>(count) * sizeof(T)) {
    std::memset(this->template as<T>(), 0, static_cast<std::size_t>(count) * sizeof(T));
  }
};

// Whether a row's gradient is anything but zeros. Otherwise the row takes no part in the backward pass: what the loss
// leaves out may hold NaN, which zeros times it would spread to all keys and values.
template <class T> bool arrived(const T* row, Index n) {
  return row != nullptr && std::any_of(row, row + n, [](T number) { return number != 0; });
}

}  // namespace qkv::ops
