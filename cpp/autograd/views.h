// Views: Tensors that show the memory of another.
//
// A view knows its base, the Tensor that the memory was made for. Its history is that of the operation that made it, on
// the history that its base had then; once a recorded change in place has given the base another history
// (autograd/in_place.h), the view takes its own from there: what is at its places of the memory.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// Marks `view`, which shows memory of x, as a view of it.
Tensor shown(Tensor view, const Tensor& x);

// The numbers of x at these places, which are counted in row-major order; a view of it if it is packed, else of a copy.
Tensor strided(const Tensor& x, const Region& region);
// Zeros of that shape, to which the numbers are added at these places, counted likewise: the gradient of strided().
Tensor scattered(const Tensor& numbers, const Shape& shape, const Region& region);
// x, with zeros at these places.
Tensor without(const Tensor& x, const Region& region);

// A view of x at the places region_for(strides) that an array with those strides has: called with those of x's memory,
// and with row-major ones for the gradient.
template <class RegionFor> Tensor view(const Tensor& x, RegionFor region_for) {
  Array y = x.data().view(region_for(x.data().strides()));
  if (!wants_gradient({x})) return shown(Tensor(std::move(y)), x);
  Region places = region_for(row_major(x.shape()));
  return shown(record(std::move(y), {x},
                      [places = std::move(places)](const Tensor& dy, TensorGradients& dx) {
                        dx.add(0, [&] { return scattered(dy, dx.shape(0), places); });
                      }),
               x);
}

// The same, where the gradient has a form of its own.
template <class Rule> Tensor view_by(const Tensor& x, Array y, Rule rule) {
  if (!wants_gradient({x})) return shown(Tensor(std::move(y)), x);
  return shown(record(std::move(y), {x}, std::move(rule)), x);
}

// The numbers of x, in row-major order, under another shape of equal size; a view where one set of strides shows them.
Tensor reshaped(const Tensor& x, const Shape& shape);

// Where the memory of `part` lies in that of `whole`, as if the latter's numbers, and what is between them, were in
// one row: the row's length, and the places of both.
struct Span {
  Span(const Array& whole, const Array& part);
  // Between an array in the shape of the whole and the row.
  Tensor row_of(const Tensor& x) const;
  Tensor whole_of(const Tensor& row) const;

  Index length;
  Region whole, part;
  bool gapless;
};

}  // namespace qkv
