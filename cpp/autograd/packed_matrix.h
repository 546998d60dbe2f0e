// Matrices in the order in which products read them, and Tensors that have their numbers in such alone.
//
// A Tensor that products without gradients read is in one of three states:
//
//     plain    row by row, in its Array, as every Tensor is made
//     both     row by row, and a packed copy of the same version
//     packed   in the packed form alone (TensorImpl::in_panels); its Array has no memory
//
// keep_packed leads from plain to both, and give_back from both to packed: if nobody else holds the memory, and while
// no other thread computes, as one may be reading it. Tensor::data() leads from packed to plain, bit by bit the same,
// where the numbers are asked for; layout(), numbers_of() and copy_row() leave the state alone.
#pragma once

#include <cstdint>
#include <memory>

#include "autograd/tensor.h"
#include "autograd/weight_state.h"

namespace qkv {

struct PackedMatrix {
  // (rows / panel, rounded up, columns, panel); of bfloat16, words of two columns each, as
  // kernels/matmul/packed_bfloat16.h describes them, and float32 by name.
  Array numbers;
  Index rows, columns, panel;
  bool bfloat16, exact;  // exact: every bit of the matrix can be had from it
  WeightState of;

  DType dtype() const { return numbers.dtype(); }
  // Whether it has what the Tensor is now.
  bool is_of(const Tensor& t) const {
    const bool away = t.impl()->in_panels.load(std::memory_order_acquire);
    return of.is(t.layout(), away);
  }
  // y (columns) = a row.
  template <class T> void copy_row(T* y, Index row) const { copy_part(y, row, 0, columns); }
  // y (end - begin) = columns of a row, from an even one on.
  template <class T> void copy_part(T* y, Index row, Index begin, Index end) const;
  Array plain() const;
};
using PackedMatrixPtr = std::shared_ptr<const PackedMatrix>;

// Its packed form, if it has one of what it is now; else null.
PackedMatrixPtr packed_form(const Tensor& t);
// From now on `made` is the packed form, in the place of `before`.
void keep_packed(const Tensor& t, const PackedMatrixPtr& before, const PackedMatrixPtr& made);
// Lets the Tensor's own memory go, if it can be.
void give_back(const Tensor& t, const PackedMatrixPtr& form);
// The numbers, which stay where they are; in memory of the Tensor's, or of their own.
Array numbers_of(const Tensor& t);
inline Array copy_of_numbers(const Tensor& t) { return t.impl()->in_panels ? numbers_of(t) : cloned(t.data()); }

}  // namespace qkv
