#include "bindings/direct_call.h"

#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "bindings/promotion.h"

namespace qkv::bindings::direct {
namespace {

// Nodes keep the address, and may outlive the interpreter.
const char* kept(const std::string& label) {
  static auto* labels = new std::set<std::string>;
  return labels->insert(label).first->c_str();
}

}  // namespace

const Entry* entry_of(std::string_view name) {
  static const auto* all = [] {
    auto* found = new std::map<std::string, const Entry*, std::less<>>;
    for (const auto entries :
         {arithmetic_entries(), number_entries(), axis_entries(), place_entries(), view_entries(), attention_entries()})
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

namespace qkv::bindings {
namespace {

const direct::Kind& kind_from(py::handle dtype) {
  const direct::Kind* kind = direct::kind_named(dtype.ptr());
  if (kind == nullptr) fail_type("expected a dtype such as torch.float32; got ", described(dtype));
  return *kind;
}

std::vector<direct::Operand> operands_from(const py::args& values) {
  std::vector<direct::Operand> all;
  for (const py::handle value : values) all.push_back(direct::operand_of(value.ptr()));
  return all;
}

py::object object_of(const direct::Kind& kind) { return py::reinterpret_borrow<py::object>(kind.object); }

}  // namespace

void bind_direct_calls(Functions& m) {
  m.def("direct_classes(classes)", [](const std::map<std::string, py::type>& given) {
    for (const auto& [name, cls] : given)
      (name == "tensor" ? direct::tensor_class : direct::class_named(name)) =
          reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
  });
  m.def("direct_dtype(double_precision)",
        [](bool double_precision) { direct::default_dtype = double_precision ? DType::float64 : DType::float32; });
  m.def("instance_of(cls, t)", [](const py::type& cls, const Tensor& t) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr())) == 0)
      fail_type("instance_of: cls must be derived from Tensor; got ", std::string(py::str(cls.attr("__name__"))));
    return py::reinterpret_steal<py::object>(direct::instance_of(type, t));
  });
  m.def("direct_dtypes(dtypes)", [](const py::list& dtypes) {
    for (const py::handle one : dtypes) {
      const auto core = one.attr("core").cast<std::string>();
      direct::kinds().push_back({one.inc_ref().ptr(), core.empty() ? DType::float32 : dtype_from(one.attr("core"), ""),
                                 one.attr("kind").cast<int>(), one.attr("itemsize").cast<int>(),
                                 one.attr("is_signed").cast<bool>()});
    }
  });
  m.def("common_dtype(a, b)",
        [](py::handle a, py::handle b) { return object_of(direct::common(kind_from(a), kind_from(b))); });
  m.def("result_dtype",
        [](const py::args& operands) { return object_of(direct::result_kind(operands_from(operands))); });
  // Tensors of the core of both operands, and the dtype.
  m.def("promoted", [](const py::args& operands) {
    const auto all = operands_from(operands);
    const direct::Kind& kind = direct::result_kind(all);
    py::list found;
    for (const direct::Operand& one : all) found.append(py::cast(one.in(kind)));
    found.append(object_of(kind));
    return found;
  });
  // A Tensor, an array or a number as a Tensor of a dtype; itself if it is one.
  m.def("cast(value, dtype)", [](py::handle value, py::handle dtype) {
    const direct::Operand operand = direct::operand_of(value.ptr());
    const direct::Kind& kind = kind_from(dtype);
    if (operand.kind == &kind && direct::tensor_of(value.ptr()).defined())
      return py::reinterpret_borrow<py::object>(value);
    return py::reinterpret_steal<py::object>(direct::result(
        without_gil(operand.tensor.defined() ? operand.tensor.numel() : 1, [&] { return operand.in(kind); }),
        "ToCopyBackward0", kind));
  });
  // The core's answer, or None where the arguments are not such as it has one for.
  m.def("answer", [](const py::args& args) {
    const auto name = args[0].cast<std::string>();
    const direct::Entry* entry = direct::entry_of(name);
    if (entry == nullptr || direct::kinds().empty()) fail_value("answer: name must be an operation's; got ", name);
    PyObject* const* values = PySequence_Fast_ITEMS(args.ptr()) + 1;
    PyObject* found = entry->answer({values, static_cast<Py_ssize_t>(args.size()) - 1, nullptr, *entry});
    return found == nullptr ? py::none() : py::reinterpret_steal<py::object>(found);
  });
  m.def("wrap(t, label='', dtype=None)", [](const Tensor& t, const std::string& label, py::handle dtype) {
    if (!label.empty()) direct::set_label(t, direct::kept(label));
    return py::reinterpret_steal<py::object>(
        direct::result(t, nullptr, dtype.is_none() ? direct::kind_of(t.dtype()) : kind_from(dtype)));
  });
  m.def("set_label(t, label)",
        [](const Tensor& t, const std::string& label) { direct::set_label(t, direct::kept(label)); });
}

}  // namespace qkv::bindings
