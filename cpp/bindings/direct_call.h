// Functions written in Python that the core answers itself for what most calls are: floating Tensors of the class that
// is derived from Tensor, beside numbers. Whatever else they are called with, and whatever is wrong with it, is left to
// the Python function, which has the rules and the words.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "bindings/convert.h"

namespace qkv::bindings::direct {

struct Entry;

// A call, in CPython's layout: the values of keywords stand behind the others.
struct Given {
  PyObject* const* values;
  Py_ssize_t count;  // by position
  PyObject* names;   // of keywords, or null
  const Entry& entry;
};

// A new reference, or null if the call is left to Python. What it throws means the same.
using Answer = PyObject* (*)(const Given&);

// A parameter behind the first one, by PyTorch's name or NumPy's, if it has any.
struct Parameter {
  std::string_view name, other;
};

struct Entry {
  const char* names;  // of functions and methods, with blanks between
  std::array<Parameter, 4> parameters{};
  Answer answer;
  const char* label;        // the operation, by the name that the derived class shows
  const char* other_label;  // along axes, or of what is no view

  constexpr Entry(const char* own_names, Answer f, const char* own = nullptr, const char* other = nullptr)
      : names(own_names), answer(f), label(own), other_label(other) {}
  // With parameters such as "dim|axis, stable".
  constexpr Entry(const char* own_names, std::string_view list, Answer f, const char* own = nullptr,
                  const char* other = nullptr)
      : Entry(own_names, f, own, other) {
    for (std::size_t i = 0; !list.empty(); ++i) {
      const std::string_view one = list.substr(0, list.find(", "));
      const std::size_t end = std::min(one.find('|'), one.size());
      parameters[i] = {one.substr(0, end), one.substr(std::min(end + 1, one.size()))};
      list.remove_prefix(std::min(one.size() + 2, list.size()));
    }
  }
};
std::span<const Entry> arithmetic_entries();  // of two operands, and numbers as they are
std::span<const Entry> number_entries();      // number by number, and products
std::span<const Entry> axis_entries();        // along axes, and by number
std::span<const Entry> view_entries();
std::span<const Entry> attention_entries();
const Entry* entry_of(std::string_view name);  // null: none
// Of the package's own functions, for Tensors of the core.
const Entry* own_entry_of(std::string_view name);
extern const Entry kAttentionEntry;

// The class derived from Tensor; those of what it gives beside Tensors, by name: shape, max, min, sort, topk.
inline constinit PyTypeObject* tensor_class = nullptr;
PyTypeObject*& class_named(const std::string& name);
inline constinit DType default_dtype = DType::float32;  // of Python's floats

// An object of `cls` that stands for the Tensor, beside those that do already.
PyObject* instance_of(PyTypeObject* cls, const Tensor& t);
// The operation that made the Tensor, by the name that the derived class shows. What follows from a change in place
// keeps its own.
void set_label(const Tensor& t, const char* label);

// Undefined for anything but an object of the class derived from Tensor.
Tensor tensor_of(PyObject* value);
// An object of that class.
PyObject* result(const Tensor& t, const char* label = nullptr);
// The dtype of narrow integers, which the object knows, or None; what is made of its numbers by moving them has it.
py::object kind_of(PyObject* tensor);
PyObject* with_kind(PyObject* tensor, py::handle kind);
PyObject* view_of(PyObject* of, const Tensor& t, const char* label);

bool read(PyObject* value, Index& number);
bool read(PyObject* value, double& number);
bool read_axis(PyObject* value, Index rank, Index& axis);
// An axis counted from the front, of a Tensor that has none 0; an IndexError in PyTorch's words.
Index axis_from_front(const char* name, Index axis, Index rank);
// Whole numbers behind the first `skipped` values: each by itself, or all in one tuple or list.
bool read_numbers(const Given& given, Py_ssize_t skipped, IndexList& numbers);

struct Floats : Tensor {};  // a Tensor of floating numbers

// An argument, by its type; null where a call passes none. An axis, a whole number and a number are no bools; an axis
// is counted from the front of a first argument with so many axes. False for anything else.
bool take(PyObject* value, Index rank, Tensor& t);
bool take(PyObject* value, Index rank, Floats& t);
bool take(PyObject* value, Index rank, Index& axis);
bool take(PyObject* value, Index rank, std::optional<IndexList>& axes);  // none where all are meant
bool take(PyObject* value, Index rank, bool& flag);
bool take(PyObject* value, Index rank, std::optional<bool>& flag);
bool take(PyObject* value, Index rank, std::optional<Index>& number);
bool take(PyObject* value, Index rank, std::optional<double>& number);
inline bool take(PyObject* value, Index, PyObject*& object) {
  object = value;
  return true;
}
inline bool take(PyObject* value, Index, py::handle& object) {  // must be given
  object = value;
  return value != nullptr;
}

template <class T> Index rank_of(const T& argument) {
  if constexpr (std::is_base_of_v<Tensor, T>) return argument.rank();
  else if constexpr (requires { argument.tensor; }) return argument.tensor.defined() ? argument.tensor.rank() : 0;
  else return 0;
}

// The values that a call passes for its parameters, null where it passes none; false if it passes anything else.
bool read_values(const Given& given, std::span<PyObject*> values);

// f(arguments), each by its type; null if one does not fit.
template <class... A, class F> PyObject* with_arguments(const Given& given, F f) {
  std::array<PyObject*, sizeof...(A)> values{};
  if (!read_values(given, values)) return nullptr;
  std::tuple<std::remove_cvref_t<A>...> all;
  std::size_t i = 0;
  Index rank = 0;
  const auto fits = [&](auto& argument) {
    if (!take(values[i], rank, argument)) return false;
    if (i++ == 0) rank = rank_of(argument);
    return true;
  };
  return std::apply([&](auto&... arguments) { return (fits(arguments) && ...) ? f(arguments...) : nullptr; }, all);
}

// What f(call, arguments) answers.
template <auto f> PyObject* call(const Given& given) {
  return []<class... A>(PyObject* (*)(const Given&, A...), const Given& own) {
    return with_arguments<A...>(own, [&](auto&... arguments) { return f(own, arguments...); });
  }(f, given);
}

// f(x, arguments) of floating numbers x; undefined: left to Python.
template <auto f> PyObject* computed(const Given& given) {
  return []<class... A>(Tensor (*)(const Tensor&, A...), const Given& own) {
    return with_arguments<Floats, A...>(own, [&](const Tensor& x, auto&... arguments) {
      const Tensor y = without_gil(x.numel(), [&] { return f(x, arguments...); });
      return y.defined() ? result(y, own.entry.label) : nullptr;
    });
  }(f, given);
}

}  // namespace qkv::bindings::direct
