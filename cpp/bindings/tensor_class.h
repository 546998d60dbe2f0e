// The parts of Python's class Tensor.
#pragma once

#include "bindings/convert.h"

namespace qkv::bindings {

using TensorClass = py::class_<TensorImpl, std::shared_ptr<TensorImpl>>;

void def_operators(TensorClass& tensor);  // + - * / ** @, comparisons, sum, mean, max
void def_layout(TensorClass& tensor);     // reshape, transpose, swapaxes, T
void def_indexing(TensorClass& tensor);   // t[index], len, iteration
void def_in_place(TensorClass& tensor);   // += -= *= /= **=, t[index] = value, copy_

// The other operand of `operation`: a number of Python's takes the Tensor's own dtype, an int beside integers is int64.
// Nothing if it is neither number nor array, so that Python can ask the other side. A number out of range is an
// OverflowError, as in NumPy.
std::optional<Tensor> operand(const char* operation, const Tensor& self, py::handle other);
// Numbers that one pass over a broadcast of both touches.
inline Index work_of(const Tensor& a, const Tensor& b) {
  return a.numel() == b.numel() ? a.numel() : a.numel() * b.numel();
}

// An index with NumPy's arrays for Tensors in it, as a tuple.
struct Selection {
  py::tuple items;
  bool advanced = false;  // selects by integer or boolean arrays
  bool ellipsis = false;
};
Selection selection_from(const py::object& index);
Tensor get_item(const Tensor& t, const py::object& index);

}  // namespace qkv::bindings
