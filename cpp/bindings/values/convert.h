// Between Python's objects and Tensors.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <string_view>

#include "autograd/tensor.h"
#include "bindings/call/interpreter.h"
#include "bindings/call/pybind11_private.h"
#include "bindings/values/exchange.h"
#include "core/error.h"

namespace qkv::bindings {

py::module_ numpy();
bool is_tensor(py::handle value);
// True, False, NumPy's booleans and numbers, as pybind11 converts them; nothing for other values, nor for a Tensor that
// records, whose gradient would be lost.
std::optional<bool> flag_or_none(py::handle value);
// Whether a value is a whole number, which Python's conversion does not cut: not a Tensor or array of floats.
bool is_whole(PyObject* value);
// What Python is to hold can be written to and be what others are views of: a leaf whose numbers have another owner
// gets a copy, and a new Tensor forgets a base that nobody else knows.
void own_numbers(const Tensor& t);
// The value as one of a class of Python's; of any other a TypeError: it must be `wanted`.
template <class T> T of_class(const char* operation, std::string_view name, std::string_view wanted, py::handle value) {
  if (!py::isinstance<T>(value)) fail_type(operation, ": ", name, " must ", wanted, "; got ", described(value));
  return py::reinterpret_borrow<T>(value);
}

// One call from Python: converts its arguments and knows what its results must be. If any argument was a Tensor,
// results are Tensors, otherwise NumPy arrays; if the arguments that count were float16 or bfloat16 arrays, so are the
// results.
class Call {
 public:
  explicit Call(const char* operation) : operation_(operation) {}

  // Floating numbers; integers and booleans become float32. Contiguous arrays are not copied. `auxiliary` ones, and
  // those that may be None, which is undefined then, say nothing about the result's dtype.
  Tensor floating(py::handle value, const char* name) { return convert(value, name, true, true); }
  Tensor auxiliary(py::handle value, const char* name) { return convert(value, name, true, false); }
  Tensor optional(py::handle value, const char* name) { return value.is_none() ? Tensor() : auxiliary(value, name); }
  // Numbers of any dtype, as they are; a boolean or floating mask, or None.
  Tensor any(py::handle value, const char* name) { return convert(value, name, false, true); }
  Tensor mask(py::handle value, const char* name) {
    return value.is_none() ? Tensor() : convert(value, name, false, false);
  }
  // Integers of any width as int64; booleans. None is undefined.
  Array integers(py::handle value, const char* name);
  Array integers_or_none(py::handle value, const char* name) {
    return value.is_none() ? Array() : integers(value, name);
  }
  Array booleans_or_none(py::handle value, const char* name);

  py::object result(const Tensor& y) const;
  py::object result(const Array& y) const { return result(Tensor(y)); }
  bool any_tensor() const { return any_tensor_; }
  const char* operation() const { return operation_; }
  void force_tensor() { any_tensor_ = true; }

 private:
  Tensor convert(py::handle value, const char* name, bool floats, bool counts);
  Array exact(py::handle value, const char* name, DType dtype, const char* wanted);

  const char* operation_;
  bool any_tensor_ = false;
  bool any_full_width_ = false;
  py::object half_;  // the half-width dtype that was met
};

// The array as NumPy sees it: shares memory with `array`. `watched`: writes through it are noticed (core/buffer.h).
py::array to_numpy(const Array& array, bool writeable, bool watched);
inline py::array to_numpy(const Array& array, bool writeable) { return to_numpy(array, writeable, writeable); }
// The same, where writes need not be noticed; None if it is undefined.
inline py::object numpy_or_none(const Array& array, bool writeable) {
  return array.defined() ? py::object(to_numpy(array, writeable, false)) : py::none();
}
// A NumPy array's own memory; nothing where it cannot be read as one of our dtypes.
std::optional<Array> shared_with(const py::array& array, BufferOf* buffer);
// A copy of anything that NumPy understands; floats of Python become float32. dtype may be None.
Array copy_of(py::handle data, py::handle dtype, const char* operation);
// A NumPy array of any dtype from anything that has one of NumPy's protocols.
py::array as_numpy(py::handle value, const char* operation, const char* name);

DType dtype_from(py::handle dtype, const char* operation);
// Whether it means bfloat16, which NumPy has no name for.
bool is_bfloat16(py::handle dtype);
py::object numpy_dtype(DType dtype);
py::tuple shape_tuple(const IndexList& sizes);
// A shape from an int, a tuple, or the arguments of f(*size).
Shape shape_from(py::handle size, const char* operation, const char* name);
// What __index__ gives, or nothing if that has more than 63 bits.
std::optional<Index> whole_number(py::handle value);
// Axes from None, an int or a tuple.
std::optional<IndexList> axes_from(py::handle axis, const char* operation);
// One axis, or nothing for None.
std::optional<Index> one_axis_from(py::handle axis, const char* operation);

}  // namespace qkv::bindings
