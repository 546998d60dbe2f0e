// What a Python class derived from Tensor is built on: its own objects around a Tensor of the core, and changes in
// place beneath them, whatever the Tensor is. Rules (leaves, gradients) are the class's.
#include "bindings/bindings.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using Impl = std::shared_ptr<TensorImpl>;

// Numbers of somebody else are read, never written to.
void own(TensorImpl& t) {
  if (t.data.buffer()->borrowed()) t.data = t.data.clone();
}

// An object of `cls` that stands for the Tensor, beside those that do already.
py::object instance_of(const py::type& cls, const Tensor& t) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr())) == 0)
    fail_type("instance_of: cls must be derived from Tensor; got ", std::string(py::str(cls.attr("__name__"))));
  if (t.is_leaf()) own(*t.impl());
  auto object = py::reinterpret_steal<py::object>(py::detail::make_new_instance(type));
  auto* instance = reinterpret_cast<py::detail::instance*>(object.ptr());
  const py::detail::type_info* core = py::detail::get_type_info(typeid(TensorImpl));
  instance->get_value_and_holder(core).value_ptr() = t.impl().get();
  core->init_instance(instance, &t.impl());
  return object;
}

// t[index] = values, in the memory that everybody who holds the Tensor sees.
void write(const Impl& t, const py::object& index, const Tensor& values) {
  own(*t);
  const Array source = values.data().cast(t->data.dtype());
  py::object view = to_numpy(t->data, true, false);
  view[selection_from(index).items] = to_numpy(source, false);
  t->data.buffer()->raise_version();
  t->lacks_history = t->lacks_history || (grad_enabled() && values.impl()->lacks_history);
}

// The leaf holds the memory of `other` from now on. Its gradient stays if it still fits.
void set_data(const Impl& t, const Tensor& other) {
  if (t->node != nullptr) throw std::runtime_error("set_data: the Tensor must be a leaf; got a computed Tensor");
  own(*other.impl());
  const Alone alone;
  const bool fits = t->data.shape() == other.shape() && t->data.dtype() == other.dtype();
  t->data = other.data();
  if (!fits) t->grad.set({});
}

}  // namespace

void bind_subclass(py::module_& m) {
  m.def("instance_of", instance_of, py::arg("cls"), py::arg("t"));
  m.def(
      "become", [](const Tensor& target, const Tensor& t) { become(*target.impl(), *t.impl()); }, py::arg("target"),
      py::arg("t"));
  m.def("write", write, py::arg("t"), py::arg("index"), py::arg("values"));
  m.def(
      "replaced",
      [](const Tensor& t, const py::object& index, const Tensor& values) {
        return replaced(t, selection_from(index).items, values);
      },
      py::arg("t"), py::arg("index"), py::arg("values"));
  m.def("set_data", set_data, py::arg("t"), py::arg("other"));
  m.def(
      "expanded",
      [](const Tensor& t, py::handle shape) { return ops::broadcast_to(t, shape_from(shape, "expand", "shape")); },
      py::arg("t"), py::arg("shape"));
  m.def("address", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data().raw()); }, py::arg("t"));
}

}  // namespace qkv::bindings
