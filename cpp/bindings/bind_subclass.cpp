// What a Python class derived from Tensor is built on: its own objects around a Tensor of the core, and changes in
// place beneath them, whatever the Tensor is. Rules (leaves, gradients) are the class's.
#include "autograd/in_place.h"
#include "bindings/bindings.h"
#include "bindings/direct_call.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"
#include "ops/shaping.h"

namespace qkv::bindings {
namespace {

using Impl = std::shared_ptr<TensorImpl>;

// The leaf holds the memory of `other` from now on. Its gradient stays if it still fits.
void set_data(const Impl& t, const Tensor& other) {
  const bool fits = t->data.shape() == other.shape() && t->data.dtype() == other.dtype();
  if (!fits && !Tensor(t).is_leaf())
    fail_runtime("set_data: data of a computed Tensor must keep its shape ", t->data.shape(), " and dtype; got ",
                 other.shape(), " of ", other.dtype());
  own_numbers(other);
  Tensor(t).current();
  const ExclusiveAccess alone;
  if (t->data.buffer() != other.data().buffer()) {  // it is no view any more
    t->base.reset();
    t->under_no_grad = false;
  }
  t->data = other.data();
  if (!fits) t->grad.set({});
}

// A leaf without gradient from now on.
void detach_in_place(const Tensor& t) {
  t.current();
  const ExclusiveAccess alone;
  TensorImpl& impl = *t.impl();
  impl.node.reset();
  impl.base.reset();
  impl.requires_grad = impl.lacks_history = false;
}

// What the results of a call with this argument are, by its `_result_class`; null: the core's.
py::object result_class(py::handle argument) {
  static const py::handle core = py::type::of<TensorImpl>().release();
  const py::handle type = py::type::handle_of(argument);
  return type.is(core) || !is_tensor(argument) ? py::object() : py::getattr(type, "_result_class", py::object());
}

py::object in_class(const py::type& cls, const py::object& result) {
  if (Py_TYPE(result.ptr()) == reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr()))
    return py::reinterpret_steal<py::object>(
        direct::instance_of(reinterpret_cast<PyTypeObject*>(cls.ptr()), result.cast<Tensor>()));
  if (!py::isinstance<py::tuple>(result) && !py::isinstance<py::list>(result)) return result;
  py::list parts;
  for (const py::handle part : result) parts.append(in_class(cls, py::reinterpret_borrow<py::object>(part)));
  if (py::hasattr(result, "_make")) return result.attr("_make")(parts);  // a named tuple
  return py::type::of(result)(parts);
}

}  // namespace

py::object in_class_of(const py::args& args, const py::kwargs& kwargs, py::object result) {
  py::object cls;
  for (const py::handle argument : args)
    if (!cls) cls = result_class(argument);
  for (const auto& [name, argument] : kwargs)
    if (!cls) cls = result_class(argument);
  return cls ? in_class(cls, result) : result;
}

void bind_subclass(Functions& m) {
  m.def("mark_parameter(t)", [](const Tensor& t) { t.impl()->is_parameter = true; });
  m.def("set_in_place(operation, t, result)", set_in_place);
  m.def("check_changeable(operation, t)", check_changeable);
  // None if x itself will do.
  m.def("before_change(t, x)", [](const Tensor& t, const Tensor& x) {
    Tensor before = before_change(t, x);
    return before.impl() == x.impl() ? std::optional<Tensor>() : before;
  });
  m.def("is_same(a, b)", [](const Tensor& a, const Tensor& b) { return a.impl() == b.impl(); });
  // Let a Tensor itself be the gradient, if it has the shape and dtype.
  m.def("share_grad(t, gradient)", [](const Tensor& t, const Tensor& gradient) {
    const bool fits = gradient.shape() == t.shape() && gradient.dtype() == t.dtype();
    if (fits) t.impl()->grad.share(gradient.impl());
    return fits;
  });
  m.def("detach_in_place(t)", detach_in_place);
  m.def("replaced(t, index, values)", [](const Tensor& t, const py::object& index, const Tensor& values) {
    return replaced(t, selection_from(index).items, values);
  });
  m.def("set_data(t, other)", set_data);
  m.def("expanded(t, shape)",
        [](const Tensor& t, py::handle shape) { return ops::expand(t, shape_from(shape, "expand", "shape")); });
  m.def("deep_copied(t, memo)", deep_copied);
  m.def("unfold(t, axis, size, step)", ops::unfold);
  m.def("strides(t)", [](const Tensor& t) { return shape_tuple(t.data().strides()); });
  m.def("is_packed(t)", [](const Tensor& t) { return t.data().is_packed(); });
  m.def("history_name(t)", [](const Tensor& t) -> std::optional<std::string> {
    const TensorImpl& now = t.current();
    if (now.node == nullptr || now.node->name == nullptr) return {};
    return now.node->name;
  });
  m.def("address(t)", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data().first()); });
}

}  // namespace qkv::bindings
