// The parts of Python's class Tensor.
#pragma once

#include "bindings/values/class.h"
#include "bindings/values/convert.h"

namespace qkv::bindings {

using TensorClass = Class<TensorImpl, std::shared_ptr<TensorImpl>>;

void def_operators(TensorClass& tensor);   // + - * / ** // % @ & | ^ ~, comparisons, += and its like
void def_reductions(TensorClass& tensor);  // sum, mean, max, argmax, all, cumsum, ...
void def_layout(TensorClass& tensor);      // reshape, transpose, squeeze, repeat, copy, ...
void def_numpy(TensorClass& tensor);       // np.concatenate([t, u]), np.exp(t), ...
void def_indexing(TensorClass& tensor);    // t[index], t[index] = value, copy_, len, iteration

// What an operator computes that stands for this ufunc of NumPy's, of two operands of which one is a Tensor; null:
// none.
py::object operator_call(py::handle ufunc, py::handle a, py::handle b);

// A TypeError where a function of NumPy's asks for the array of a Tensor that records, in a list say, to compute with
// it.
void refuse_numpys_list();

// The other operand of `operation`: a number of Python's takes the Tensor's own dtype, an int beside integers is int64.
// Nothing if it is neither number nor array, so that Python can ask the other side. A number out of range is an
// OverflowError, as in NumPy.
std::optional<Tensor> operand(const char* operation, const Tensor& self, py::handle other);
// An object whose Tensor becomes what is computed of it and the other operand; NotImplemented without one.
py::object updated(const char* operation, const py::object& self, const std::optional<Tensor>& other,
                   Tensor (*computed)(const Tensor&, const Tensor&));
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
void set_item(const Tensor& t, const py::object& index, py::handle value);
// A leaf with memory of its own, at the same strides; Tensors that share memory do so again if they are copied
// together.
Tensor deep_copied(const Tensor& t, py::dict& memo);
// The value in the shape and dtype of t, which it replaces; with its history, and that of t, of which nothing stays.
Tensor replacement(const Tensor& t, const Tensor& value);
// The result of a call, whose Tensors get the class of those among its arguments if that is derived from the core's.
py::object in_class_of(const py::args& args, const py::kwargs& kwargs, py::object result);
// A list, a tuple or a named tuple of the same class with other parts.
py::object with_parts(const py::object& parts, const py::list& others);
// What was computed becomes t; see autograd/in_place.h.
void set_in_place(const char* operation, const Tensor& t, const Tensor& result);

}  // namespace qkv::bindings
