// Functions written in Python that the core answers itself for what most calls are: floating Tensors of the class that
// is derived from Tensor, beside numbers. Whatever else they are called with, and whatever is wrong with it, is left to
// the Python function, which has the rules and the words.
#pragma once

#include <pybind11/pybind11.h>

#include <span>
#include <string_view>

#include "autograd/tensor.h"

namespace qkv::bindings::direct {

// What a call passes, in CPython's layout: the values of keywords stand behind the others.
struct Given {
  PyObject* const* values;
  Py_ssize_t count;  // by position
  PyObject* names;   // of keywords, or null
  bool by_position(Py_ssize_t wanted) const { return count == wanted && names == nullptr; }
};

// A new reference, or null if the call is left to Python. What it throws means the same.
using Answer = PyObject* (*)(const Given&);

struct Entry {
  const char* name;
  Answer answer;
};
std::span<const Entry> number_entries();  // number by number, and products
std::span<const Entry> axis_entries();    // along axes
std::span<const Entry> view_entries();
Answer answer_of(std::string_view name);  // null: none

// The class derived from Tensor, and those of what it gives beside Tensors.
struct Classes {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* shape = nullptr;
  PyTypeObject* max = nullptr;  // tuples of numbers and their places
  PyTypeObject* min = nullptr;
};
Classes& classes();

// An object of `cls` that stands for the Tensor, beside those that do already.
PyObject* instance_of(PyTypeObject* cls, const Tensor& t);
// The operation that made the Tensor, by the name that the derived class shows. What follows from a change in place
// keeps its own.
void set_label(const Tensor& t, const char* label);

// Undefined for anything but an object of the class derived from Tensor.
Tensor tensor_of(PyObject* value);
// Undefined unless it holds floating numbers, too.
Tensor floating_of(PyObject* value);
// An object of that class.
PyObject* result(const Tensor& t, const char* label = nullptr);
// A view of `of` has its dtype, which of integers the object knows.
PyObject* view_of(PyObject* of, const Tensor& t, const char* label);
// A whole number that is no bool; an axis, counted from the front. False for anything else.
bool read(PyObject* value, Index& number);
bool read_axis(PyObject* value, Index rank, Index& axis);
// A number of Python's that is no bool.
bool read(PyObject* value, double& number);

// A parameter behind the first one, by PyTorch's name or NumPy's.
struct Parameter {
  const char* name;
  const char* other = nullptr;
};
// The values that a call passes for parameters, null where it passes none; false if it passes anything else.
bool read_parameters(const Given& given, std::span<const Parameter> parameters, std::span<PyObject*> values);

}  // namespace qkv::bindings::direct
