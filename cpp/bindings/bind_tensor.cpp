// Python's class Tensor.
#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "nn/parameter.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using ops::Binary;
using ops::Compare;
using ops::Unary;
using Impl = std::shared_ptr<TensorImpl>;

// The other operand of an operator: numbers of Python take the Tensor's own dtype. NotImplemented if it is neither
// number nor array, so that Python can ask the other side.
std::optional<Tensor> operand(const Tensor& self, py::handle other, const char* operation) {
  if (is_tensor(other)) return other.cast<Tensor>();
  PyObject* p = other.ptr();
  if (PyBool_Check(p) == 0 && PyLong_Check(p) != 0 && !is_floating(self.dtype()))
    return Tensor(Array::full({}, DType::int64, other.cast<double>()));
  if (PyFloat_Check(p) != 0 || PyLong_Check(p) != 0) return ops::scalar_like(self, other.cast<double>());
  if (py::isinstance<py::str>(other) || other.is_none() || py::isinstance<py::dict>(other)) return {};
  Call call(operation);
  return call.any(other, "other");
}

template <Binary op, bool swapped> py::object arithmetic(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = operand(t, other, "Tensor");
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  return py::cast(swapped ? ops::binary(op, *o, t) : ops::binary(op, t, *o));
}

template <Compare op> py::object comparison(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = operand(t, other, "Tensor");
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  return py::cast(ops::compare(op, t, *o));
}

template <bool swapped> py::object product(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = operand(t, other, "Tensor");
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  return py::cast(without_gil([&] { return swapped ? ops::matmul(*o, t) : ops::matmul(t, *o); }));
}

bool is_advanced(py::handle item) {
  return py::isinstance<py::list>(item) || py::isinstance<py::array>(item) || is_tensor(item) || PyBool_Check(item.ptr()) != 0 ||
         (!py::isinstance<py::tuple>(item) && PyIndex_Check(item.ptr()) == 0 && !item.is_none() && !PySlice_Check(item.ptr()) &&
          item.ptr() != Py_Ellipsis);
}

// NumPy works out what an index means, on a view of our memory or on the positions 0, 1, 2, ...; so the rules and
// errors are NumPy's.
Tensor get_item(const Tensor& t, const py::object& index) {
  const py::tuple items = py::isinstance<py::tuple>(index) ? index.cast<py::tuple>() : py::make_tuple(index);
  bool advanced = false;
  bool ellipsis = false;
  py::list plain;
  for (const py::handle item : items) {
    advanced = advanced || is_advanced(item);
    ellipsis = ellipsis || item.ptr() == Py_Ellipsis;
    plain.append(is_tensor(item) ? py::object(to_numpy(item.cast<Tensor>().data(), false)) : py::reinterpret_borrow<py::object>(item));
  }
  if (!advanced) {
    if (!ellipsis) plain.append(py::ellipsis());  // so that the result is a view even for a single number
    const py::array whole = to_numpy(t.data(), false);
    const py::array view = whole[py::tuple(plain)].cast<py::array>();
    const Index size = item_size(t.dtype());
    std::vector<Index> strides;
    for (py::ssize_t axis = 0; axis < view.ndim(); ++axis) strides.push_back(view.strides(axis) / size);
    const Index offset = (static_cast<const char*>(view.data()) - static_cast<const char*>(t.data().raw())) / size;
    return ops::strided(t, Shape(std::vector<Index>(view.shape(), view.shape() + view.ndim())), strides, t.numel() == 0 ? 0 : offset);
  }
  const py::module_ numpy = py::module_::import("numpy");
  const py::object positions = numpy.attr("arange")(t.numel()).attr("reshape")(shape_tuple(t.shape()))[py::tuple(plain)];
  Call call("Tensor");
  const Array at = call.integers(positions, "index");
  return ops::take_flat(t, at, at.shape());
}

py::object item_of(const Tensor& t) {
  if (t.numel() != 1) fail_value("item: the Tensor must hold one number; got a Tensor ", t.shape());
  return to_numpy(t.data(), false).attr("item")();
}

// Writes into the memory that everybody who holds this Tensor sees.
void copy_into(TensorImpl& impl, py::handle values) {
  Call call("copy_");
  const Tensor source = call.any(values, "values");
  Shape shape;
  if (!broadcast(source.shape(), impl.data.shape(), shape) || shape != impl.data.shape())
    fail_value("copy_: values must broadcast to the Tensor's shape ", impl.data.shape(), "; got values ", source.shape());
  if (impl.node != nullptr) throw std::runtime_error("copy_: the Tensor must be a leaf because others are computed, not stored; got a computed Tensor");
  const NoGrad quiet;
  const Array ready = ops::broadcast_to(Tensor(source.data().cast(impl.data.dtype())), impl.data.shape()).data();
  std::memmove(impl.data.raw(), ready.raw(), static_cast<std::size_t>(ready.bytes()));
  impl.data.buffer()->raise_version();
}

bool is_writable(const TensorImpl& impl) { return impl.node == nullptr && !impl.requires_grad; }

py::object numpy_view(const TensorImpl& impl) { return to_numpy(impl.data, is_writable(impl)); }

// Not every library heeds that a DLPack tensor is read-only, so writes are noticed whatever it says.
py::object dlpack(const TensorImpl& impl, const py::kwargs& options) {
  return to_numpy(impl.data, is_writable(impl), true).attr("__dlpack__")(**options);
}

void set_grad(TensorImpl& impl, py::handle value) {
  if (value.is_none()) {
    impl.grad.set({});
    return;
  }
  Call call("grad");
  const Tensor g = call.floating(value, "grad");
  if (g.shape() != impl.data.shape())
    fail_value("grad: grad must be ", impl.data.shape(), " because the Tensor is; got grad ", g.shape());
  Array own = g.data().cast(impl.data.dtype());
  own.make_unique();
  impl.grad.set(std::move(own));
}

py::object array_protocol(const TensorImpl& impl, py::handle dtype, py::handle copy) {
  py::object view = numpy_view(impl);
  const bool converts = !dtype.is_none() && !py::object(view.attr("dtype")).equal(py::module_::import("numpy").attr("dtype")(dtype));
  if (copy.is_none() || !copy.cast<bool>()) {
    if (!converts) return view;
    if (!copy.is_none()) fail_value("__array__: copy must not be False because the dtype changes; got dtype ", std::string(py::str(dtype)));
    return view.attr("astype")(dtype);
  }
  return converts ? view.attr("astype")(dtype) : view.attr("copy")();
}

}  // namespace

void bind_tensor(py::module_& m) {
  py::class_<TensorImpl, Impl> tensor(m, "Tensor", R"doc(
An array of numbers that remembers how it was computed, so that gradients can flow back through it.

Tensors are made by :func:`qkv.tensor` and by every function and layer that is given one. Methods follow NumPy:
``t.sum(axis, keepdims)``, ``t.reshape(2, -1)``, ``t.transpose(1, 0)``, slices, ``@``, broadcasting.
``np.asarray(t)`` and ``t.numpy()`` share its memory.

Examples
--------
>>> x = qkv.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
)doc");
  tensor.attr("__array_ufunc__") = py::none();  // so that array + tensor asks the Tensor
  tensor.attr("__hash__") = py::module_::import("builtins").attr("object").attr("__hash__");

  tensor.def_property_readonly("shape", [](const TensorImpl& t) { return shape_tuple(t.data.shape()); }, "Sizes of the axes.")
      .def_property_readonly("dtype", [](const TensorImpl& t) { return numpy_dtype(t.data.dtype()); }, "NumPy dtype.")
      .def_property_readonly("ndim", [](const TensorImpl& t) { return t.data.rank(); }, "Number of axes.")
      .def_property_readonly("size", [](const TensorImpl& t) { return t.data.numel(); }, "Number of elements.")
      .def_property_readonly("is_leaf", [](const TensorImpl& t) { return t.node == nullptr; }, "False if an operation made it.")
      .def_property_readonly("version", [](const TensorImpl& t) { return t.data.version(); }, "Rises with every change in place.")
      .def_property("requires_grad", [](const Impl& t) { return Tensor(t).requires_grad(); },
                    [](TensorImpl& t, bool wanted) {
                      if (t.node != nullptr) throw std::runtime_error("requires_grad: can be set on leaves only; got a computed Tensor");
                      if (wanted && !is_floating(t.data.dtype()))
                        fail_type("requires_grad: only floating Tensors have gradients; got dtype ", t.data.dtype());
                      if (wanted) {
                        t.lacks_history = false;
                        if (t.data.buffer()->borrowed()) t.data = t.data.clone();  // a gradient needs numbers that stay
                      }
                      t.requires_grad = wanted;
                    }, "True if gradients flow to or through it.")
      .def_property("grad", [](const TensorImpl& t) -> py::object {
                      Array grad = t.grad.get();
                      return grad.defined() ? py::cast(Tensor(std::move(grad))) : py::none();
                    }, set_grad, "Sum of the gradients of all backward passes so far, or None.")
      .def_property_readonly("T", [](const Impl& t) {
        ops::Axes axes;
        for (Index axis = t->data.rank(); axis-- > 0;) axes.push_back(axis);
        return ops::transpose(Tensor(t), axes);
      }, "All axes reversed.");

  tensor.def("numpy", numpy_view, "The numbers as a NumPy array that shares the memory; read-only unless this is a leaf without gradient.")
      .def("__array__", array_protocol, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack__", dlpack)
      .def("__dlpack_device__", [](const TensorImpl&) { return py::make_tuple(1, 0); })
      .def("backward", [](const Impl& self, py::handle gradient, bool retain_graph) {
        Call call("backward");
        const Tensor g = call.optional(gradient, "gradient");
        without_gil([&] { Tensor(self).backward(g.defined() ? g.data() : Array(), retain_graph); });
      }, py::arg("gradient") = py::none(), py::arg("retain_graph") = false,
           "Add the gradients of this Tensor to the leaves that it was computed from. `gradient` may be left out for one number.")
      .def("detach", [](const Impl& t) { return Tensor(t).detach(); }, "The same numbers without a history.")
      .def("item", [](const Impl& t) { return item_of(Tensor(t)); }, "The number of a one-element Tensor.")
      .def("tolist", [](const TensorImpl& t) { return numpy_view(t).attr("tolist")(); }, "Nested lists of Python numbers.")
      .def("copy_", [](py::object self, py::handle values) {
        copy_into(self.cast<TensorImpl&>(), values);
        return self;
      }, py::arg("values"), "Overwrite the numbers in place; raises the version.")
      .def("astype", [](const Impl& t, py::handle dtype) { return ops::cast(Tensor(t), dtype_from(dtype, "astype")); }, py::arg("dtype"),
           "The same numbers in another dtype; gradients flow back.")
      .def("reshape", [](const Impl& t, const py::args& shape) {
        return ops::reshape(Tensor(t), shape_from(shape, "reshape", "shape"));
      }, "The same numbers under another shape; one size may be -1.")
      .def("transpose", [](const Impl& t, const py::args& axes) {
        ops::Axes order;
        if (axes.empty() || (axes.size() == 1 && axes[0].is_none())) {
          for (Index axis = t->data.rank(); axis-- > 0;) order.push_back(axis);
        } else {
          const Shape given = shape_from(axes, "transpose", "axes");
          for (const Index axis : given) order.push_back(axis < 0 ? axis + t->data.rank() : axis);
        }
        return ops::transpose(Tensor(t), order);
      }, "Axes in another order; without arguments reversed.")
      .def("swapaxes", [](const Impl& t, Index a, Index b) { return ops::swapaxes(Tensor(t), a, b); }, py::arg("axis1"), py::arg("axis2"),
           "Two axes exchanged.");

  const auto reduction = [&](const char* name, Tensor (*f)(const Tensor&, const std::optional<ops::Axes>&, bool), const char* doc) {
    tensor.def(name, [f, name](const Impl& t, py::handle axis, bool keepdims) {
      return f(Tensor(t), axes_from(axis, name), keepdims);
    }, py::arg("axis") = py::none(), py::arg("keepdims") = false, doc);
  };
  reduction("sum", ops::sum, "Sum over an axis, a tuple of axes or everything.");
  reduction("mean", ops::mean, "Mean over an axis, a tuple of axes or everything.");
  reduction("max", ops::max, "Largest number along an axis, a tuple of axes or of everything.");

  tensor.def("__add__", arithmetic<Binary::add, false>).def("__radd__", arithmetic<Binary::add, true>)
      .def("__sub__", arithmetic<Binary::subtract, false>).def("__rsub__", arithmetic<Binary::subtract, true>)
      .def("__mul__", arithmetic<Binary::multiply, false>).def("__rmul__", arithmetic<Binary::multiply, true>)
      .def("__truediv__", arithmetic<Binary::divide, false>).def("__rtruediv__", arithmetic<Binary::divide, true>)
      .def("__pow__", [](const Impl& t, py::handle o) { return arithmetic<Binary::power, false>(t, o); })
      .def("__rpow__", [](const Impl& t, py::handle o) { return arithmetic<Binary::power, true>(t, o); })
      .def("__matmul__", product<false>).def("__rmatmul__", product<true>)
      .def("__neg__", [](const Impl& t) { return ops::unary(Unary::negate, Tensor(t)); })
      .def("__pos__", [](const Impl& t) { return Tensor(t); })
      .def("__abs__", [](const Impl& t) { return ops::unary(Unary::absolute, Tensor(t)); })
      .def("__eq__", comparison<Compare::equal>).def("__ne__", comparison<Compare::not_equal>)
      .def("__lt__", comparison<Compare::less>).def("__le__", comparison<Compare::less_equal>)
      .def("__gt__", comparison<Compare::greater>).def("__ge__", comparison<Compare::greater_equal>);
  tensor.attr("__hash__") = py::module_::import("builtins").attr("object").attr("__hash__");

  tensor.def("__getitem__", [](const Impl& t, const py::object& index) { return get_item(Tensor(t), index); })
      .def("__len__", [](const TensorImpl& t) {
        if (t.data.rank() == 0) fail_type("len: the Tensor must have an axis; got a Tensor ()");
        return t.data.dim(0);
      })
      .def("__iter__", [](const Impl& t) {
        if (t->data.rank() == 0) fail_type("iter: the Tensor must have an axis; got a Tensor ()");
        py::list rows;
        for (Index i = 0; i < t->data.dim(0); ++i) rows.append(get_item(Tensor(t), py::int_(i)));
        return py::iter(rows);
      })
      .def("__float__", [](const Impl& t) { return py::float_(item_of(Tensor(t))); })
      .def("__int__", [](const Impl& t) { return py::int_(item_of(Tensor(t))); })
      .def("__bool__", [](const Impl& t) { return item_of(Tensor(t)).attr("__bool__")(); })
      .def("__repr__", [](const py::object& t) { return py::module_::import("qkv._format").attr("tensor_repr")(t); })
      .def("__format__", [](const Impl& t, const py::str& spec) -> py::object {
        if (t->data.numel() == 1 && t->data.rank() == 0) return item_of(Tensor(t)).attr("__format__")(spec);
        return py::str(py::cast(Tensor(t)));
      })
      .def("__copy__", [](const Impl& t) { return Tensor(t).detach(); })
      .def("__deepcopy__", [](const TensorImpl& t, const py::dict&) {
        if (t.node != nullptr) throw std::runtime_error("deepcopy: only leaves can be copied with their gradient; detach the computed Tensor first");
        return Tensor(t.data.clone(), t.requires_grad);
      })
      .def(py::pickle(
          [](const TensorImpl& t) {
            if (t.node != nullptr) throw std::runtime_error("pickle: only leaves can be stored; detach the computed Tensor first");
            return py::make_tuple(to_numpy(t.data, false), t.requires_grad);
          },
          [](const py::tuple& state) {
            return std::make_shared<TensorImpl>(*Tensor(copy_of(state[0], py::none(), "Tensor"), state[1].cast<bool>()).impl());
          }));

  py::class_<ParameterImpl, TensorImpl, std::shared_ptr<ParameterImpl>>(m, "Parameter", R"doc(
A Tensor that a module learns: a leaf that requires a gradient and is found by ``module.parameters()``.

Parameters
----------
data : array_like or Tensor
    Copied.
requires_grad : bool
dtype : str or numpy.dtype, optional
    ``"float32"`` or ``"float64"``. None means float32, whatever the dtype of ``data``, and float64 once it is assigned to
    a module that ``to("float64")`` converted; digits that float32 lacks are kept with ``dtype="float64"`` only.

Raises
------
TypeError
    If ``data`` holds no real numbers or ``dtype`` is no floating one.

Examples
--------
>>> class Scale(qkv.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.weight = qkv.nn.Parameter(np.ones(3))
)doc")
      .def(py::init([](py::handle data, bool requires_grad, py::handle dtype) {
        const DType kept = dtype.is_none() ? DType::float32 : dtype_from(dtype, "Parameter");
        if (!is_floating(kept)) fail_type("Parameter: dtype must be float32 or float64 because it has a gradient; got ", kept);
        auto impl = std::make_shared<ParameterImpl>(copy_of(data, py::none(), "Parameter").cast(kept));
        impl->requires_grad = requires_grad;
        impl->follows_module = dtype.is_none();
        return impl;
      }), py::arg("data"), py::arg("requires_grad") = true, py::kw_only(), py::arg("dtype") = py::none())
      .def("__deepcopy__", [](const ParameterImpl& p, py::dict& memo) {
        const auto copy = std::make_shared<ParameterImpl>(p.data.clone());
        copy->requires_grad = p.requires_grad;
        (void)memo;
        return copy;
      })
      .def(py::pickle(
          [](const ParameterImpl& p) { return py::make_tuple(to_numpy(p.data, false), p.requires_grad); },
          [](const py::tuple& state) {
            auto impl = std::make_shared<ParameterImpl>(copy_of(state[0], py::none(), "Parameter"));
            impl->requires_grad = state[1].cast<bool>();
            return impl;
          }));

  m.def("tensor", [](py::handle data, py::handle dtype, bool requires_grad) {
    Tensor t(copy_of(data, dtype, "tensor"));
    if (requires_grad && !is_floating(t.dtype()))
      fail_type("tensor: only floating numbers have gradients; got dtype ", t.dtype());
    t.impl()->requires_grad = requires_grad;
    return t;
  }, py::arg("data"), py::arg("dtype") = py::none(), py::arg("requires_grad") = false);

  m.def("grad", [](const Tensor& output, const Tensors& inputs, py::handle gradient, bool retain_graph, bool create_graph) {
    Call call("grad");
    const Tensor given = call.optional(gradient, "gradient");
    return without_gil([&]() -> Tensors {
      if (create_graph) return recorded_gradients_of(output, inputs, given.defined() ? ops::cast(given, output.dtype()) : given);
      Tensors results;
      for (Array& array : gradients_of(output, inputs, given.defined() ? given.data() : Array(), retain_graph)) {
        results.emplace_back(std::move(array));
        results.back().impl()->lacks_history = grad_enabled();
      }
      return results;
    });
  }, py::arg("output"), py::arg("inputs"), py::arg("gradient") = py::none(), py::arg("retain_graph") = false,
        py::arg("create_graph") = false);
  // Whether it has a gradient; an error if it should have one but lacks its history.
  m.def("is_differentiable", [](const Tensor& t) {
    if (t.impl()->lacks_history) fail_without_history();
    return t.requires_grad();
  }, py::arg("t"));
  m.def("grad_enabled", &grad_enabled);
  m.def("set_grad_enabled", &set_grad_enabled);
}

}  // namespace qkv::bindings
