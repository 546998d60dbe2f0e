// Objects of the class that Python derives from Tensor (`qkv.torch`).
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/values/convert.h"

namespace qkv::bindings::derived {

// The class derived from Tensor.
inline constinit PyTypeObject* tensor_class = nullptr;
inline constinit DType default_dtype = DType::float32;  // of Python's floats

// An object of `cls` that shows the Tensor, beside those that do already.
PyObject* instance_of(PyTypeObject* cls, const Tensor& t);
// The operation that made the Tensor, by the name that the derived class shows. What follows from a change in place
// keeps its own.
void set_label(const Tensor& t, const char* label);

// Undefined for anything but an object of the class derived from Tensor.
Tensor tensor_of(PyObject* value);
// An object of that class.
PyObject* result(const Tensor& t, const char* label = nullptr);
// The dtype of narrow integers, which the object knows, or None.
py::object kind_of(PyObject* tensor);
void set_kind(PyObject* tensor, py::handle kind);

}  // namespace qkv::bindings::derived
