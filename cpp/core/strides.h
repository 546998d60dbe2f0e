// Strides, and walking through arrays of different ones at the same time.
#pragma once

#include <array>

#include "core/types.h"

namespace qkv {

using Strides = IndexList;  // in elements

Strides row_major(const Shape& shape);
// Strides with which an array of shape `from`, with its own strides, is read as one of shape `to`: 0 along broadcast
// axes.
Strides broadcast_strides(const Shape& from, const Shape& to, const Strides& own);
inline Strides broadcast_strides(const Shape& from, const Shape& to) {
  return broadcast_strides(from, to, row_major(from));
}
// Where numbers are, counted from the first one of the array (or memory) that they are part of.
struct Region {
  Shape shape;
  Strides strides;
  Index offset = 0;
};

// Where element i of an array of this shape, in order, is in one of these strides.
inline Index offset_of(Index i, const Shape& shape, const Strides& strides) {
  Index offset = 0;
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) offset += i % shape[axis] * strides[axis];
  return offset;
}

// The loops over `shape` for N arrays: neighbouring axes that all arrays pass through evenly are merged, and the last
// axis is handed to the body as a run.
template <std::size_t N> class Loops {
 public:
  Loops(const Shape& shape, std::array<Strides, N> strides) {
    for (Index axis = 0; axis < shape.rank(); ++axis) {
      const Index size = shape.dim(axis);
      if (size == 1) continue;
      const auto at = [&](std::size_t n) { return strides[n][static_cast<std::size_t>(axis)]; };
      bool merges = !sizes_.empty();
      for (std::size_t n = 0; merges && n < N; ++n) merges = strides_[n].back() == at(n) * size;
      for (std::size_t n = 0; n < N; ++n) {
        if (merges) strides_[n].back() = at(n);
        else strides_[n].push_back(at(n));
      }
      if (merges) sizes_.back() *= size;
      else sizes_.push_back(size);
    }
    if (sizes_.empty()) {
      sizes_.push_back(1);
      for (auto& s : strides_) s.push_back(0);
    }
    rows_ = 1;
    for (std::size_t axis = 0; axis + 1 < sizes_.size(); ++axis) rows_ *= sizes_[axis];
  }

  Index rows() const { return rows_; }
  Index run() const { return sizes_.back(); }
  Index run_stride(std::size_t n) const { return strides_[n].back(); }
  // Of all axes that are left, the run's the last.
  const IndexList& sizes() const { return sizes_; }
  const Strides& strides(std::size_t n) const { return strides_[n]; }

  // Calls body(offsets) for the rows [begin, end): where each array's run starts.
  template <class Body> void each_row(Index begin, Index end, Body&& body) const {
    const std::size_t outer = sizes_.size() - 1;
    IndexList position(outer);
    std::array<Index, N> offset{};
    Index rest = begin;
    for (std::size_t axis = outer; axis-- > 0;) {
      position[axis] = rest % sizes_[axis];
      rest /= sizes_[axis];
      for (std::size_t n = 0; n < N; ++n) offset[n] += position[axis] * strides_[n][axis];
    }
    for (Index row = begin; row < end; ++row) {
      body(offset);
      for (std::size_t axis = outer; axis-- > 0;) {
        for (std::size_t n = 0; n < N; ++n) offset[n] += strides_[n][axis];
        if (++position[axis] < sizes_[axis]) break;
        for (std::size_t n = 0; n < N; ++n) offset[n] -= sizes_[axis] * strides_[n][axis];
        position[axis] = 0;
      }
    }
  }

 private:
  IndexList sizes_;
  std::array<Strides, N> strides_;
  Index rows_ = 1;
};

}  // namespace qkv
