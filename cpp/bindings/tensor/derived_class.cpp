#include "bindings/tensor/derived_class.h"

#include <cstring>

#include "bindings/call/pybind11_private.h"
#include "bindings/values/convert.h"

namespace qkv::bindings::derived {

Tensor tensor_of(PyObject* value) {
  PyTypeObject *type = Py_TYPE(value), *wanted = tensor_class;
  if (type != wanted && PyType_IsSubtype(type, wanted) == 0) return {};
  const auto* impl = held_tensor(value);
  return impl == nullptr ? Tensor() : Tensor(*impl);
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

void set_kind(PyObject* tensor, py::handle kind) { py::setattr(tensor, kind_name(), kind); }

PyObject* instance_of(PyTypeObject* cls, const Tensor& t) {
  static PyObject* const none_given = PyTuple_New(0);
  own_numbers(t);
  auto object = py::reinterpret_steal<py::object>(class_of<TensorImpl>->tp_new(cls, none_given, nullptr));
  if (!object) throw py::error_already_set();
  hold_tensor(object.ptr(), t.impl());
  return object.release().ptr();
}

void set_label(const Tensor& t, const char* label) {
  Node* node = t.current().node.get();
  if (node == nullptr) return;
  if (node->name != nullptr &&
      (std::strcmp(node->name, "CopySlices") == 0 || std::strcmp(node->name, "AsStridedBackward0") == 0))
    return;
  node->name = label;
}

}  // namespace qkv::bindings::derived
