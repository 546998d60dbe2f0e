// Products with a matrix that has been packed: weights that stay, packed once, and large products of any kind, where
// packing costs little.
//
// The packed matrix (depth, columns) is in panels of `panel` columns: panel p holds, for each step of the depth,
// its columns side by side, so that a product reads it once, in order, in whole vectors. Columns beyond the last are
// zeros.
#pragma once

#include "core/index.h"
#include "kernels/activation.h"

namespace qkv::kernels {

// What is done to a product before it is stored for good.
template <class T> struct Epilogue {
  const T* bias = nullptr;  // (columns) or null
  bool activates = false;
  Activation activation = Activation::relu;
  bool adds = false;  // to what is in y, before everything else
};

// A matrix (rows, depth) in memory: number k of row r is data[r * stride + k], or data[k * stride + r] if transposed.
template <class T> struct Operand {
  const T* data = nullptr;
  Index stride = 0;
  bool transposed = false;

  [[gnu::always_inline]] const T* at(Index row, Index k) const {
    return data + (transposed ? k * stride + row : row * stride + k);
  }
};

template <class T> struct PackedProduct {
  Index panel;       // columns per panel
  Index tile_rows;   // rows per tile; pieces of whole tiles waste nothing
  Index block_rows;  // rows that meet one panel before the next
  Index scratch;     // numbers that multiply needs room for
  // packed (columns / panel, rounded up, depth, panel) = the operand (columns, depth), transposed.
  void (*pack)(T* packed, const Operand<T>& operand, Index columns, Index depth);
  // y (rows, columns), rows ldy apart, = x (rows, depth) @ packed, finished, for the columns of panels first to last.
  // Each number is summed in one order, for any number of rows. What is read after the last panel may be given, to
  // be fetched while it works.
  void (*multiply)(T* y, Index ldy, const Operand<T>& x, const T* packed, const Epilogue<T>& epilogue, T* scratch,
                   Index rows, Index columns, Index depth, Index first, Index last, const void* afterwards);
};

}  // namespace qkv::kernels
