// Linear layers whose weight is packed once: products of any number of rows, one row at the speed of memory.
//
// The packed weight stands in panels of `panel` outputs: panel p holds, for each input k, the weights of its outputs
// side by side, so that a product reads it once, in order, in whole vectors. Outputs beyond the last are zeros.
#pragma once

#include "core/index.h"
#include "kernels/activation.h"

namespace qkv::kernels {

// What is done to a product before it is stored for good.
template <class T> struct Finish {
  const T* bias = nullptr;  // (out) or null
  bool activates = false;
  Activation activation = Activation::relu;
};

template <class T> struct PackedLinear {
  Index panel;      // outputs per panel
  Index tile_rows;  // rows per tile; pieces of whole tiles waste nothing
  Index scratch;    // numbers that multiply needs room for
  // packed ((out / panel, rounded up), in, panel) = weight (out, in).
  void (*pack)(T* packed, const T* weight, Index out, Index in);
  // y (rows, out) = x (rows, in) @ weight^T, finished, for the outputs of panels first to last. Each number is summed
  // in one order, whatever the number of rows.
  void (*multiply)(T* y, const T* x, const T* packed, const Finish<T>& finish, T* scratch, Index rows, Index out, Index in,
                   Index first, Index last);
};

}  // namespace qkv::kernels
