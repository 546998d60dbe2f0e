#include "bindings/direct_call.h"

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "bindings/bindings.h"
#include "bindings/convert.h"

namespace qkv::bindings::direct {
namespace {

// Nodes keep the address, and may outlive the interpreter.
const char* kept(const std::string& label) {
  static auto* labels = new std::set<std::string>;
  return labels->insert(label).first->c_str();
}

}  // namespace

const Entry* entry_of(std::string_view name) {
  const std::string wanted = text(" ", name, " ");
  for (const auto entries : {number_entries(), axis_entries(), view_entries()})
    for (const Entry& entry : entries)
      if (text(" ", entry.names, " ").find(wanted) != std::string::npos) return &entry;
  return nullptr;
}

const Entry* own_entry_of(std::string_view name) { return name == kAttentionEntry.names ? &kAttentionEntry : nullptr; }

Classes& classes() {
  static Classes all;
  return all;
}

DType& default_dtype() {
  static DType dtype = DType::float32;
  return dtype;
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

namespace qkv::bindings {

void bind_direct_calls(Functions& m) {
  m.def("direct_classes(classes)", [](const std::map<std::string, py::type>& given) {
    const std::map<std::string, PyTypeObject**> places = {
        {"tensor", &direct::classes().tensor}, {"shape", &direct::classes().shape}, {"max", &direct::classes().max},
        {"min", &direct::classes().min},       {"sort", &direct::classes().sort},   {"topk", &direct::classes().topk}};
    for (const auto& [name, cls] : given) *places.at(name) = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
  });
  m.def("direct_dtype(double_precision)",
        [](bool double_precision) { direct::default_dtype() = double_precision ? DType::float64 : DType::float32; });
  m.def("instance_of(cls, t, label='')", [](const py::type& cls, const Tensor& t, const std::string& label) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr())) == 0)
      fail_type("instance_of: cls must be derived from Tensor; got ", std::string(py::str(cls.attr("__name__"))));
    if (!label.empty()) direct::set_label(t, direct::kept(label));
    return py::reinterpret_steal<py::object>(direct::instance_of(type, t));
  });
  m.def("set_label(t, label)",
        [](const Tensor& t, const std::string& label) { direct::set_label(t, direct::kept(label)); });
}

}  // namespace qkv::bindings
