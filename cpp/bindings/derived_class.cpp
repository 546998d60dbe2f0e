#include "bindings/derived_class.h"

#include <cstring>

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
