#include "bindings/direct_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

#include "bindings/convert.h"

namespace qkv::bindings::direct {

Tensor tensor_of(PyObject* value) {
  PyTypeObject *type = Py_TYPE(value), *wanted = tensor_class;
  if (type != wanted && PyType_IsSubtype(type, wanted) == 0) return {};
  const auto holder = reinterpret_cast<py::detail::instance*>(value)->get_value_and_holder();
  if (!holder.holder_constructed()) return {};
  return Tensor(holder.holder<std::shared_ptr<TensorImpl>>());
}

PyObject* result(const Tensor& t, const char* label) {
  if (label != nullptr) set_label(t, label);
  return instance_of(tensor_class, t);
}

static PyObject* kind_name() {
  static PyObject* const name = PyUnicode_InternFromString("_kind");
  return name;
}

py::object kind_of(PyObject* tensor) { return py::getattr(tensor, kind_name()); }

PyObject* with_kind(PyObject* tensor, py::handle kind) {
  py::setattr(tensor, kind_name(), kind);
  return tensor;
}

PyObject* view_of(PyObject* of, const Tensor& t, const char* label) {
  PyObject* shown = result(t, label);
  if (t.dtype() != DType::int64) return shown;
  const py::object kind = kind_of(of);
  return kind.is_none() ? shown : with_kind(shown, kind);
}

bool read(PyObject* value, Index& number) {
  if (value == nullptr || PyLong_CheckExact(value) == 0) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool read_axis(PyObject* value, Index rank, Index& axis) {
  if (!read(value, axis) || axis < -rank || axis >= rank) return false;
  if (axis < 0) axis += rank;
  return true;
}

Index axis_from_front(const char* name, Index axis, Index rank) {
  const Index size = std::max<Index>(rank, 1);
  if (axis < -size || axis >= size)
    throw py::index_error(text(name, ": dim must be from ", -size, " to ", size - 1, " because the Tensor has ", rank,
                               " axes; got ", axis));
  return axis < 0 ? axis + size : axis;
}

bool read_numbers(const Given& given, Py_ssize_t skipped, IndexList& numbers) {
  PyObject* first = given.values[skipped];
  if (given.count == skipped + 1 && (PyTuple_Check(first) != 0 || PyList_CheckExact(first) != 0)) {
    numbers = shape_from(first, "", "");
    return true;
  }
  Index number = 0;
  for (Py_ssize_t i = skipped; i < given.count; numbers.push_back(number), ++i)
    if (!read(given.values[i], number)) return false;
  return true;
}

bool read(PyObject* value, double& number) {
  if (PyFloat_CheckExact(value) == 0 && PyLong_CheckExact(value) == 0) return false;
  number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return true;
}

bool take(PyObject* value, Index, Tensor& t) { return value != nullptr && (t = tensor_of(value)).defined(); }

bool take(PyObject* value, Index rank, Floats& t) {
  return take(value, rank, static_cast<Tensor&>(t)) && is_floating(t.dtype());
}

bool take(PyObject* value, Index rank, Index& axis) { return read_axis(value, rank, axis); }

bool take(PyObject* value, Index rank, std::optional<IndexList>& axes) {
  if (value == nullptr || value == Py_None) return true;
  if (PyLong_CheckExact(value) == 0 && PyTuple_Check(value) == 0) return false;
  axes = axes_from(value, "");
  for (Index& axis : *axes)
    if (axis += axis < 0 ? rank : 0; axis < 0 || axis >= rank) return false;
  if (axes->empty()) axes.reset();  // means all
  return true;
}

bool take(PyObject* value, Index, bool& flag) {
  if (value == nullptr) return true;
  flag = value == Py_True;
  return PyBool_Check(value) != 0;
}

bool take(PyObject* value, Index rank, std::optional<bool>& flag) {
  return value == nullptr || take(value, rank, flag.emplace());
}

bool take(PyObject* value, Index, std::optional<Index>& number) {
  return value == nullptr || read(value, number.emplace());
}

bool take(PyObject* value, Index, std::optional<double>& number) {
  return value == nullptr || value == Py_None || read(value, number.emplace());
}

bool read_values(const Given& given, std::span<PyObject*> values) {
  if (given.count == 0 || given.count > std::ssize(values)) return false;
  std::copy_n(given.values, given.count, values.begin());
  const auto parameters = std::span(given.entry.parameters).first(values.size() - 1);
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given.names, i));
    if (text == nullptr) throw py::error_already_set();
    const std::string_view name = text;
    const auto found = std::ranges::find_if(
        parameters, [name](const Parameter& one) { return !name.empty() && (one.name == name || one.other == name); });
    if (found == parameters.end()) return false;
    PyObject*& place = values[static_cast<std::size_t>(found - parameters.begin()) + 1];
    if (place != nullptr) return false;
    place = given.values[given.count + i];
  }
  return true;
}

const Entry* entry_of(std::string_view name) {
  static const auto* all = [] {
    auto* found = new std::map<std::string, const Entry*, std::less<>>;
    for (const auto entries :
         {arithmetic_entries(), number_entries(), axis_entries(), view_entries(), attention_entries()})
      for (const Entry& entry : entries) {
        std::istringstream names(entry.names);
        for (std::string one; names >> one;) found->try_emplace(one, &entry);
      }
    return found;
  }();
  const auto found = all->find(name);
  return found == all->end() ? nullptr : found->second;
}

const Entry* own_entry_of(std::string_view name) { return name == kAttentionEntry.names ? &kAttentionEntry : nullptr; }

PyTypeObject*& class_named(const std::string& name) {
  static std::map<std::string, PyTypeObject*> all;
  return all[name];
}

PyObject* instance_of(PyTypeObject* cls, const Tensor& t) {
  static const py::detail::type_info* core = py::detail::get_type_info(typeid(TensorImpl));
  own_numbers(t);
  PyObject* object = py::detail::make_new_instance(cls);
  auto* instance = reinterpret_cast<py::detail::instance*>(object);
  instance->get_value_and_holder().value_ptr() = t.impl().get();
  core->init_instance(instance, &t.impl());
  return object;
}

void set_label(const Tensor& t, const char* label) {
  Node* node = t.current().node.get();
  if (node == nullptr) return;
  if (node->name != nullptr &&
      (std::strcmp(node->name, "CopySlices") == 0 || std::strcmp(node->name, "AsStridedBackward0") == 0))
    return;
  node->name = label;
}

}  // namespace qkv::bindings::direct
