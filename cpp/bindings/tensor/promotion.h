// dtypes of the class derived from Tensor, and PyTorch's rules for the dtype of a result.
#pragma once

#include <deque>
#include <span>
#include <string>

#include "bindings/values/convert.h"
#include "ops/ops.h"

namespace qkv::bindings::derived {

// A dtype of Python's. Narrow integers are numbers of int64 that are cut to their width after each operation.
struct Kind {
  PyObject* object;
  DType core;
  int category;  // booleans 0, integers 1, floating numbers 2: the higher one wins
  int bytes;
  bool has_sign;
  bool narrow() const { return category == 1 && bytes < 8; }
  std::string text() const { return py::str(py::handle(object)); }
};

// One of an operation: a Tensor, an array, which is copied, or a number.
struct Operand {
  PyObject* value = nullptr;
  Tensor tensor;  // undefined: a number
  const Kind* kind = nullptr;
  Tensor in(const Kind& wanted) const;
};

std::deque<Kind>& kinds();               // all, which Python tells
const Kind& kind_of(DType core);         // of the same numbers
const Kind* kind_named(PyObject* kind);  // null: no dtype of Python's
const Kind& kind_of(PyObject* value, const Tensor& t);
Operand operand_of(PyObject* value);  // a TypeError for what arithmetic does not take
// The one that holds the numbers of both.
const Kind& common(const Kind& a, const Kind& b);
// Of Tensors with axes, then of those without, then of numbers, each only for a higher kind.
const Kind& result_kind(std::span<const Operand> operands);
Tensor cut(const Tensor& t, const Kind& kind);  // narrow ones to their width
// The numbers in another dtype, or the same Tensor.
Tensor cast(const Tensor& t, const Kind& from, const Kind& to);
// An object of the derived class that has the dtype.
PyObject* result(const Tensor& t, const char* label, const Kind& kind);
}  // namespace qkv::bindings::derived
