// How the arrays of one call of attention lie in memory, and the checks of their shapes.
#pragma once

#include "autograd/strided.h"
#include "core/strides.h"
#include "kernels/attention/problem.h"
#include "ops/attention/attention.h"

namespace qkv::ops {

using kernels::HeadsView;
using kernels::WeightsView;

// The numbers of an array, null if it is not defined.
template <class T> T* numbers(const Array& x) { return x.defined() ? x.data<std::remove_const_t<T>>() : nullptr; }

// Whether the numbers along the last axis adjoin.
inline bool has_rows(const Array& x) {
  return x.is_packed() || x.rank() == 0 || x.dim(-1) == 1 || x.strides().back() == 1;
}
inline Array with_rows(const Array& x) { return has_rows(x) ? x : gathered(x); }

// How the axes of one call lie in memory. `packed`: (B, L, H * D); else (B, H, L, D).
struct Geometry : kernels::AttentionSizes {
  Index key_rows = 0;  // rows of memory per batch and head; at least `keys`
  Index rank = 4;      // of the caller's arrays; 4 if they are packed
  bool packed = false;

  template <class T> HeadsView<T> view(const Array& x, Index number_of_heads, Index rows, Index size) const {
    if (!x.defined()) return {};
    using Number = std::remove_const_t<T>;
    T* data = has_rows(x) ? x.first_as<Number>() : x.data<Number>();  // an error
    if (x.is_packed()) {
      if (packed) return {data, rows * number_of_heads * size, size, number_of_heads * size};
      return {data, number_of_heads * rows * size, rows * size, size};
    }
    const Strides s = x.strides();
    const Index batch = s.size() > 2 ? s[0] : 0, position = s[s.size() - 2];
    return {data, batch, packed ? size : s.size() == 4 ? s[1] : 0, position};
  }
  Shape output_shape() const {
    if (packed) return {batches, queries, heads * value_size};
    return shaped({batches, heads, queries, value_size});
  }
  Shape weights_shape() const { return shaped({batches, heads, queries, keys}); }
  Shape lse_shape() const { return shaped({batches, heads, queries}); }

  // Drops the axes that the caller's arrays do not have; of heads side by side the results have all.
  Shape shaped(Shape full) const {
    if (rank <= 3) full.erase(full.begin() + 1);
    if (rank == 2) full.erase(full.begin());
    return full;
  }
};

Geometry plain_geometry(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& o);
Geometry packed_geometry(const char* op, const Shape& q, const Shape& k, Index value_width, Heads heads);

// The shape of an array that broadcasts to the weights, with the axis of heads where the caller's ranks lack it.
Shape lifted(Shape shape, const Geometry& g);

// An array that broadcasts to the weights and has the axes of (B, H, Lq, Lk), or their last ones, by its strides.
template <class T> WeightsView<T> weights_view(const Array& x, const Geometry& g) {
  if (!x.defined()) return {};
  const Strides s = broadcast_strides(x.shape(), {g.batches, g.heads, g.queries, g.keys}, x.strides());
  return {x.first_as<std::remove_const_t<T>>(), s[0], s[1], s[2], s[3]};
}

// `given` is the shape as the caller gave it, where `shape` is that of the array with an axis of heads put in.
void check_broadcasts(const char* op, const char* name, const Shape& shape, const Shape& weights, const Shape& given);
Array checked_lengths(const char* op, const char* name, const Array& lens, const Geometry& g);

}  // namespace qkv::ops
