// Functions written in Python that the core answers itself for what most calls are: floating Tensors of the class that
// is derived from Tensor, beside numbers. Whatever else they are called with, and whatever is wrong with it, is left to
// the Python function, which has the rules and the words.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <span>
#include <string_view>
#include <tuple>

#include "bindings/convert.h"

namespace qkv::bindings::direct {

// What a call passes, in CPython's layout: the values of keywords stand behind the others.
struct Given {
  PyObject* const* values;
  Py_ssize_t count;  // by position
  PyObject* names;   // of keywords, or null
  bool by_position(Py_ssize_t wanted) const { return count == wanted && names == nullptr; }
};

// A parameter behind the first one, by PyTorch's name or NumPy's, if it has any.
struct Parameter {
  const char* name = nullptr;
  const char* other = nullptr;
};
struct Entry;
// A new reference, or null if the call is left to Python. What it throws means the same.
using Answer = PyObject* (*)(const Given&, const Entry&);

struct Entry {
  const char* names;  // of functions and methods, with blanks between
  Answer answer;
  const char* label = nullptr;        // the operation, by the name that the derived class shows
  const char* other_label = nullptr;  // along axes, or of what is no view
  std::array<Parameter, 4> parameters{};
};
std::span<const Entry> arithmetic_entries();  // of two operands, and numbers as they are
std::span<const Entry> number_entries();      // number by number, and products
std::span<const Entry> axis_entries();        // along axes
std::span<const Entry> place_entries();       // by number
std::span<const Entry> view_entries();
std::span<const Entry> attention_entries();
const Entry* entry_of(std::string_view name);  // null: none
// Of the package's own functions, for Tensors of the core.
const Entry* own_entry_of(std::string_view name);
extern const Entry kAttentionEntry;

// The class derived from Tensor, and those of what it gives beside Tensors.
struct Classes {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* shape = nullptr;
  PyTypeObject* max = nullptr;  // tuples of numbers and their places
  PyTypeObject* min = nullptr;
  PyTypeObject* sort = nullptr;
  PyTypeObject* topk = nullptr;
};
Classes& classes();
DType& default_dtype();  // of Python's floats

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
// The dtype of narrow integers, which the object knows, or None; what is made of its numbers by moving them has it.
py::object kind_of(PyObject* tensor);
PyObject* view_of(PyObject* of, const Tensor& t, const char* label);
// Arguments, null where a call passes none: a whole number and a number that are no bools; an axis, counted from the
// front; axes, none where all are meant; a flag or a whole number that may be left out. False for anything else.
bool read(PyObject* value, Index& number);
bool read(PyObject* value, double& number);
bool read_axis(PyObject* value, Index rank, Index& axis);
// An axis counted from the front, of a Tensor that has none 0; an IndexError in PyTorch's words.
Index axis_from_front(const char* name, Index axis, Index rank);
// Whole numbers behind the first `skipped` values: each by itself, or all in one tuple or list.
bool read_numbers(const Given& given, Py_ssize_t skipped, IndexList& numbers);
inline bool take(PyObject* value, const Tensor& x, Index& axis) { return read_axis(value, x.rank(), axis); }
bool take(PyObject* value, const Tensor& x, std::optional<IndexList>& axes);
bool take(PyObject* value, const Tensor& x, bool& flag);
inline bool take(PyObject* value, const Tensor&, Tensor& other) {
  return value != nullptr && (other = tensor_of(value)).defined();
}
inline bool take(PyObject* value, const Tensor&, std::optional<Index>& number) {
  return value == nullptr || read(value, number.emplace());
}
inline bool take(PyObject* value, const Tensor&, std::optional<double>& number) {
  return value == nullptr || value == Py_None || read(value, number.emplace());
}

// The values that a call passes for parameters, null where it passes none; false if it passes anything else.
bool read_parameters(const Given& given, std::span<const Parameter> parameters, std::span<PyObject*> values);
template <class... A> bool read_arguments(const Given& given, const Entry& entry, const Tensor& x, A&... arguments) {
  std::array<PyObject*, sizeof...(A) + 1> values{};
  if (!x.defined() || !read_parameters(given, std::span(entry.parameters).first(sizeof...(A)), values)) return false;
  std::size_t i = 0;
  return (take(values[i++], x, arguments) && ...);
}

// f(x, arguments) of floating numbers x; undefined: left to Python.
template <auto f, class... A> PyObject* computed(const Given& given, const Entry& entry) {
  const Tensor x = given.count > 0 ? floating_of(given.values[0]) : Tensor();
  std::tuple<A...> all;
  return std::apply(
      [&](A&... a) -> PyObject* {
        if (!read_arguments(given, entry, x, a...)) return nullptr;
        const Tensor y = without_gil(x.numel(), [&] { return f(x, a...); });
        return y.defined() ? result(y, entry.label) : nullptr;
      },
      all);
}

}  // namespace qkv::bindings::direct
