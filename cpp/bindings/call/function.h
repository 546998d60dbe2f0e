// Functions of C++ as Python's: what they take, and what a call that does not fit is answered with. How arguments are
// converted is operation.h's.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/call/core_classes.h"
#include "bindings/call/pybind11_private.h"

namespace qkv::bindings {

class Call;  // convert.h

// What a function takes, as Python writes it: "x, axis=-1, *, mask=None"_signature.
struct SignatureText {
  std::string_view text;
};
constexpr SignatureText operator""_signature(const char* text, std::size_t size) { return {{text, size}}; }
std::size_t count_of(SignatureText names);

struct Parameter {
  enum class Role { named, rest, keywords };  // `rest`: py::args
  py::object name;                            // None: has no name
  py::object fallback;                        // null: must be given
  std::string (*kind)();                      // its type, as a stub writes it
  Role role;
  // Of a field of options: where it is in them, and what gives it its value; false: of another type.
  std::ptrdiff_t offset = 0;
  bool (*load)(void* field, Call& call, PyObject* value, const char* name) = nullptr;
  bool is_default = false;  // the fallback is the value that the field has anyway
};

struct ConstructedBy {
  py::handle pybind11_init;
};

// One signature of a function, and what it calls.
struct Signature {
  static constexpr std::size_t kMost = 32, kNone = kMost;

  std::string name, doc;
  py::handle owner;        // the class, of a method; lives as long as the function
  py::handle constructor;  // pybind11's, of an __init__ and its kind
  std::vector<Parameter> parameters;
  std::size_t positional = kNone;  // how many may be given by position
  std::string (*result)() = nullptr;
  // A new reference, or null and an error; or null and which argument does not fit.
  PyObject* (*invoke)(const Signature&, PyObject* const* values, std::size_t& failed) = nullptr;
  std::shared_ptr<void> function;
  std::unique_ptr<Signature> next;  // another one of the function's

  // "(x, axis=-1, *, mask=None)", with types or without.
  std::string shown(bool typed) const;
  // Of all signatures the one with most names: the others are for pickles and C++.
  const Signature& widest() const;
  // The values in the parameters' order, if number and names of what is given fit; those of `rest` and `keywords` live
  // as long as `made`.
  bool fill(PyObject* const* arguments, Py_ssize_t count, PyObject* names, PyObject** values,
            std::array<py::object, 2>& made) const;

  void take(std::string_view text) { doc = text; }
  void take(SignatureText names);
  void take(ConstructedBy by) { constructor = by.pybind11_init; }
  void finish();

 private:
  void add_name(const std::string& name, py::object fallback);
  std::size_t named_ = 0;  // parameters that have got their names
};

template <class T> std::string kind_of();

template <class... T> std::string kinds_of() {
  std::string all;
  ((all += (all.empty() ? "" : ", ") + kind_of<T>()), ...);
  return all;
}

template <class T> struct KindOf {
  static constexpr bool kClass = std::is_class_v<T>;
  static std::string name() {
    if (class_of<T> == nullptr) return "object";
    return py::str(py::handle(reinterpret_cast<PyObject*>(class_of<T>)).attr("__name__"));
  }
};
template <class T> struct KindOf<std::shared_ptr<T>> : KindOf<T> {
  static constexpr bool kClass = false;
};
template <class T> struct KindOf<std::optional<T>> {
  static std::string name() { return kind_of<T>() + " | None"; }
};
template <class T> struct KindOf<std::vector<T>> {
  static std::string name() { return "list[" + kind_of<T>() + "]"; }
};
template <class K, class T> struct KindOf<std::map<K, T>> {
  static std::string name() { return "Mapping[" + kinds_of<K, T>() + "]"; }
};
template <class... T> struct KindOf<std::tuple<T...>> {
  static std::string name() { return "tuple[" + kinds_of<T...>() + "]"; }
};
template <class A, class B> struct KindOf<std::pair<A, B>> : KindOf<std::tuple<A, B>> {};

template <class V, class... Others> inline constexpr bool kOneOf = (std::is_same_v<V, Others> || ...);

template <class T> std::string kind_of() {
  using V = std::remove_cvref_t<std::remove_pointer_t<T>>;
  if (kOneOf<V, void>) return "None";
  if (kOneOf<V, bool, py::bool_>) return "bool";
  if (kOneOf<V, char, std::string, std::string_view, py::str>) return "str";
  if (std::is_integral_v<V> || kOneOf<V, py::int_>) return "int";
  if (std::is_floating_point_v<V> || kOneOf<V, py::float_>) return "float";
  if (kOneOf<V, Tensor>) return "Tensor";
  if (kOneOf<V, py::bytes>) return "bytes";
  if (kOneOf<V, py::tuple>) return "tuple";
  if (kOneOf<V, py::list>) return "list";
  if (kOneOf<V, py::dict>) return "dict";
  if (kOneOf<V, py::type>) return "type";
  if (kOneOf<V, py::function>) return "Callable";
  if (kOneOf<V, py::sequence>) return "Sequence";
  if (kOneOf<V, py::iterator>) return "Iterator";
  if (std::is_base_of_v<py::array, V>) return "NDArray[Any]";
  return KindOf<V>::name();
}

// What def() binds, and not its documentation.
template <class F>
concept Callable = !std::is_convertible_v<F, std::string_view>;

py::tuple tuple_of(std::span<PyObject* const> values);
// Python's object for it.
py::object function_of(std::shared_ptr<Signature> signature);
// A call of Python's object for it, as CPython makes it.
PyObject* call(const Signature& first, PyObject* function, PyObject* const* arguments, Py_ssize_t count,
               PyObject* names);
// Its signatures with types, for tools/stubs.py.
py::list typed_signatures(py::handle function);
// Whether Python's object is such a function.
bool is_bound_function(PyObject* object);
// The function becomes an attribute of the scope, or another signature of the one that is there.
void add_function(py::handle scope, std::unique_ptr<Signature> signature);

}  // namespace qkv::bindings
