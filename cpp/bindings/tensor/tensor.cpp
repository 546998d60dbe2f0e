// Python's class Tensor.
#include "autograd/packed_matrix.h"
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/tensor/tensor_class.h"
#include "bindings/values/class.h"
#include "bindings/values/fields.h"
#include "nn/parameter.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

py::object item_of(const Tensor& t) {
  if (t.numel() != 1) fail_value("item: the Tensor must hold one number; got a Tensor ", t.shape());
  return to_numpy(t.data(), false).attr("item")();
}

bool is_writable(const Tensor& t) { return t.is_leaf() && !t.requires_grad(); }

py::object numpy_view(const Tensor& t) { return to_numpy(t.data(), is_writable(t)); }

// Some libraries write to a DLPack tensor that is read-only, so writes are noticed all the same. One that cannot be
// told (before DLPack 1.0) gets a copy.
py::object dlpack(const Tensor& t, const py::kwargs& options) {
  try {
    return to_numpy(t.data(), is_writable(t), true).attr("__dlpack__")(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_BufferError) || (options.contains("copy") && options["copy"].ptr() == Py_False)) throw;
    return to_numpy(cloned(t.data()), true).attr("__dlpack__")(**options);
  }
}

void set_grad(TensorImpl& impl, py::handle value) {
  if (value.is_none()) {
    impl.grad.set({});
    return;
  }
  Call call("grad");
  const Tensor g = call.floating(value, "grad");
  if (g.shape() != impl.array.shape())
    fail_value("grad: grad must be ", impl.array.shape(), " because the Tensor is; got grad ", g.shape());
  Array own = packed(g.data()).cast(impl.array.dtype());
  own.make_unique();
  impl.grad.set(std::move(own));
}

py::object array_protocol(const Tensor& t, py::handle dtype, py::handle copy) {
  if (grad_enabled() && t.requires_grad()) refuse_numpys_list();
  py::object view = numpy_view(t);
  const bool converts = !dtype.is_none() && !py::object(view.attr("dtype")).equal(numpy().attr("dtype")(dtype));
  if (copy.is_none() || !copy.cast<bool>()) {
    if (!converts) return view;
    if (!copy.is_none())
      fail_value("__array__: copy must not be False because the dtype changes; got dtype ",
                 std::string(py::str(dtype)));
    return view.attr("astype")(dtype);
  }
  return converts ? view.attr("astype")(dtype) : view.attr("copy")();
}

Tensors gradients(const Tensor& output, const Tensors& inputs, FloatingOrNone given, bool retain_graph,
                  bool create_graph) {
  return without_gil([&]() -> Tensors {
    if (create_graph)
      return recorded_gradients_of(output, inputs, given.defined() ? ops::cast(given, output.dtype()) : given);
    Tensors results;
    for (Array& array : gradients_of(output, inputs, given.defined() ? given.data() : Array(), retain_graph)) {
      results.emplace_back();
      if (!array.defined()) continue;
      // Apart from the others and from `gradient`: each may be changed in place.
      if (array.is_packed()) array.make_unique();
      else if (array.buffer().use_count() > 1) array = cloned(array);
      results.back() = Tensor(std::move(array));
      results.back().impl()->lacks_history = grad_enabled();
    }
    return results;
  });
}

}  // namespace

Tensor deep_copied(const Tensor& t, py::dict& memo) {
  if (!t.is_leaf())
    fail_runtime("deepcopy: only leaves can be copied with their gradient; detach the computed Tensor first");
  const Array& numbers = t.data();
  const auto& buffer = numbers.buffer();
  const py::str key(text("memory of qkv at ", buffer.get()));
  if (!memo.contains(key)) {
    const Array whole({static_cast<Index>(buffer->bytes())}, DType::boolean, buffer);  // bytes
    memo[key] = py::cast(Tensor(whole.clone()));
  }
  const auto copy = memo[key].cast<Tensor>().data().buffer();
  void* first = static_cast<char*>(copy->data()) +
                (static_cast<const char*>(numbers.first()) - static_cast<const char*>(buffer->data()));
  Tensor result(Array(numbers.shape(), numbers.strides(), numbers.dtype(), copy, first), t.requires_grad());
  if (const Array gradient = t.impl()->grad.get(); gradient.defined()) result.impl()->grad.set(gradient.clone());
  return result;
}

void bind_tensor(Functions& m) {
  TensorClass tensor(m, "Tensor", R"doc(
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
  tensor.attr("__hash__") = py::module_::import("builtins").attr("object").attr("__hash__");

  tensor.def_property("shape", "Sizes of the axes.", [](const Tensor& t) { return shape_tuple(t.shape()); })
      .def_property("dtype", "NumPy dtype.", [](const TensorImpl& t) { return numpy_dtype(t.array.dtype()); })
      .def_property("ndim", "Number of axes.", [](const TensorImpl& t) { return t.array.rank(); })
      .def_property("size", "Number of elements.", [](const TensorImpl& t) { return t.array.numel(); })
      .def_property("is_leaf", "False if an operation made it.", [](const Tensor& t) { return t.is_leaf(); })
      .def_property("version", "Rises with every change in place.",
                    [](const Tensor& t) { return t.layout().version(); })
      .def_property(
          "requires_grad", "True if gradients flow to or through it.",
          [](const Tensor& t) { return t.requires_grad(); },
          [](const Tensor& self, bool wanted) {
            TensorImpl& t = *self.impl();
            if (!self.is_leaf()) fail_runtime("requires_grad: can be set on leaves only; got a computed Tensor");
            if (wanted && !is_floating(t.array.dtype()))
              fail_type("requires_grad: only floating Tensors have gradients; got dtype ", t.array.dtype());
            if (wanted) {
              t.lacks_history = false;
              if (t.array.buffer()->borrowed()) t.set(cloned(t.array));  // a gradient needs numbers that stay
            }
            if (wanted == t.requires_grad) return;
            const ExclusiveAccess alone;
            t.requires_grad = wanted;
            if (wanted) ++t.history_version;  // its views have a history from now on
          })
      .def_property(
          "grad", "Sum of the gradients of all backward passes so far, or None.",
          [](const TensorImpl& t) { return t.grad.tensor(); }, set_grad);

  tensor
      .def("numpy",
           "The numbers as a NumPy array that shares the memory; read-only unless this is a leaf without gradient.",
           numpy_view)
      .def("__array__(dtype=None, copy=None)", array_protocol)
      .def_property("itemsize", "Bytes of one number.", [](const TensorImpl& t) { return item_size(t.array.dtype()); })
      .def_property("nbytes", "Bytes of all numbers.", [](const TensorImpl& t) { return t.array.bytes(); })
      .def_property(
          "ctypes",
          "Where the numbers are, as NumPy's attribute of that name: libraries that save arrays ask for it. Of a view "
          "whose numbers do not stand one after the other, where a copy is.",
          [](const Tensor& t) -> py::object {  // code that asks for an address reads the numbers one after the other
            return t.data().is_packed() ? numpy_view(t).attr("ctypes")
                                        : py::object(to_numpy(gathered(t.data()), false).attr("ctypes"));
          })
      .def("tobytes", "A copy of the numbers, row by row.",
           [](const Tensor& t) { return numpy_view(t).attr("tobytes")(); })
      .def("__dlpack__", dlpack)
      .def("__dlpack_device__", [](const TensorImpl&) { return py::make_tuple(1, 0); })
      .def("backward(gradient=None, retain_graph=False)",
           "Add the gradients of this Tensor to the leaves that it was computed from. `gradient` may be left out for "
           "one number.",
           [](const Tensor& t, FloatingOrNone gradient, bool retain_graph) {
             without_gil([&] { t.backward(gradient.defined() ? gradient.data() : Array(), retain_graph); });
           })
      .def("detach", "The same numbers without a history.", [](const Tensor& t) { return t.detach(); })
      .def("item", "The number of a one-element Tensor.", item_of)
      .def("tolist", "Nested lists of Python numbers.", [](const Tensor& t) { return numpy_view(t).attr("tolist")(); })
      .def("astype(dtype)", "The same numbers in another dtype; gradients flow back.",
           [](const Tensor& t, py::handle dtype) {
             const DType wanted = dtype_from(dtype, "astype");
             if (wanted == t.dtype() && !wants_gradient({t})) return Tensor(cloned(t.data()));  // a copy, as in NumPy
             return without_gil(t.numel(), [&] { return ops::cast(t, wanted); });
           });
  def_layout(tensor);
  def_operators(tensor);
  def_numpy(tensor);
  def_reductions(tensor);
  def_indexing(tensor);

  tensor.def("__float__", [](const Tensor& t) { return py::float_(item_of(t)); })
      .def("__int__", [](const Tensor& t) { return py::int_(py::int_(0) + py::int_(item_of(t))); })  // no bool
      .def("__bool__",
           [](const Tensor& t) {
             if (t.numel() != 1)
               fail_value("bool: the Tensor must hold one number; got a Tensor ", t.shape(),
                          "; write t.any() or t.all(), and & | ~ in place of and, or, not");
             return item_of(t).attr("__bool__")();
           })
      .def("__delitem__",
           [](const Tensor&, py::handle) {
             fail_type(
                 "Tensor: items cannot be deleted because a shape does not change; np.delete(t, index, axis) "
                 "gives a new array");
           })
      .def("__repr__", [](const py::object& t) { return callback("tensor_repr")(t); })
      .def("__format__",
           [](const Tensor& t, const py::str& spec) -> py::object {
             if (t.numel() == 1 && t.rank() == 0) return item_of(t).attr("__format__")(spec);
             return py::str(py::cast(t));
           })
      .def("__copy__", [](const Tensor& t) { return t.detach(); })
      .def("__deepcopy__", deep_copied);
  def_pickle<py::tuple>(
      tensor,
      [](const Tensor& t) {
        if (!t.is_leaf()) fail_runtime("pickle: only leaves can be stored; detach the computed Tensor first");
        return py::make_tuple(to_numpy(packed(t.data()), false), t.requires_grad());
      },
      [](const py::tuple& state) {
        return Tensor(copy_of(state[0], py::none(), "Tensor"), state[1].cast<bool>()).impl();
      });

  Class<ParameterImpl, TensorImpl, std::shared_ptr<ParameterImpl>> parameter(m, "Parameter", R"doc(
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
)doc");
  def_init<py::handle, bool, py::handle>(
      parameter, "data, requires_grad=True, *, dtype=None",
      [](auto, py::handle data, bool requires_grad, py::handle dtype) {
        const DType kept = dtype.is_none() ? DType::float32 : dtype_from(dtype, "Parameter");
        if (!is_floating(kept))
          fail_type("Parameter: dtype must be float32 or float64 because it has a gradient; got ", kept);
        auto impl = std::make_shared<ParameterImpl>(copy_of(data, py::none(), "Parameter").cast(kept));
        impl->requires_grad = requires_grad;
        impl->follows_module = dtype.is_none();
        return impl;
      });
  parameter.def("__deepcopy__", [](const Tensor& p, const py::dict&) {
    const auto copy = std::make_shared<ParameterImpl>(copy_of_numbers(p));
    copy->requires_grad = p.impl()->requires_grad;
    return copy;
  });
  def_pickle<py::tuple>(
      parameter,
      [](const Tensor& p) { return py::make_tuple(to_numpy(packed(numbers_of(p)), false), p.impl()->requires_grad); },
      [](const py::tuple& state) {
        auto impl = std::make_shared<ParameterImpl>(copy_of(state[0], py::none(), "Parameter"));
        impl->requires_grad = state[1].cast<bool>();
        return impl;
      });

  m.def("tensor(data, dtype=None, requires_grad=False)", [](py::handle data, py::handle dtype, bool requires_grad) {
    Tensor t(copy_of(data, dtype, "tensor"));
    if (requires_grad && !is_floating(t.dtype()))
      fail_type("tensor: only floating numbers have gradients; got dtype ", t.dtype());
    t.impl()->requires_grad = requires_grad;
    return t;
  });

  m.def("grad(output, inputs, gradient=None, retain_graph=False, create_graph=False)",
        [](const Tensor& output, const Tensors& inputs, FloatingOrNone gradient, bool retain_graph, bool create_graph) {
          Tensors found = gradients(output, inputs, gradient, retain_graph, create_graph);
          for (std::size_t i = 0; i < found.size(); ++i)
            if (!found[i].defined()) found[i] = Tensor(Array::zeros(inputs[i].shape(), inputs[i].dtype()));
          return found;
        });
  // None for an input that has no part in the output.
  m.def("grad: grad_where_used(output, inputs, gradient, retain_graph, create_graph)", gradients);
  m.def("leaves(output)", leaves);
  // Whether it has a gradient; an error if it should have one but lacks its history.
  m.def("is_differentiable(t)", [](const Tensor& t) {
    if (t.impl()->lacks_history) fail_without_history();
    return t.requires_grad();
  });
  m.def("grad_enabled", &grad_enabled);
  m.def("set_grad_enabled", &set_grad_enabled);
}

}  // namespace qkv::bindings
