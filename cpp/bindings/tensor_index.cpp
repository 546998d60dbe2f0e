// Where the numbers of Python's class Tensor stand: indices and layout.
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using Impl = std::shared_ptr<TensorImpl>;

bool is_advanced(py::handle item) {
  return py::isinstance<py::list>(item) || py::isinstance<py::array>(item) || is_tensor(item) ||
         PyBool_Check(item.ptr()) != 0 ||
         (!py::isinstance<py::tuple>(item) && PyIndex_Check(item.ptr()) == 0 && !item.is_none() &&
          !PySlice_Check(item.ptr()) && item.ptr() != Py_Ellipsis);
}

// NumPy would show a view, through which the other could be changed.
Tensor excerpt(Tensor copy) {
  copy.impl()->excerpt = true;
  return copy;
}

Tensor transposed(const Tensor& t, const ops::Axes& axes) {
  return excerpt(without_gil(t.numel(), [&] { return ops::transpose(t, axes); }));
}

ops::Axes reversed(const Tensor& t) {
  ops::Axes axes;
  for (Index axis = t.rank(); axis-- > 0;) axes.push_back(axis);
  return axes;
}

}  // namespace

Selection selection_from(const py::object& index) {
  Selection result;
  const py::tuple items = py::isinstance<py::tuple>(index) ? index.cast<py::tuple>() : py::make_tuple(index);
  py::list plain;
  for (const py::handle item : items) {
    result.advanced = result.advanced || is_advanced(item);
    if (py::isinstance<py::array>(item)) as_numpy(item, "Tensor", "index");  // refuses masked arrays
    result.ellipsis = result.ellipsis || item.ptr() == Py_Ellipsis;
    plain.append(is_tensor(item) ? py::object(to_numpy(item.cast<Tensor>().data(), false))
                                 : py::reinterpret_borrow<py::object>(item));
  }
  result.items = py::tuple(plain);
  return result;
}

// NumPy works out what an index means, on a view of our memory or on the positions 0, 1, 2, ...; so the rules and
// errors are NumPy's.
Tensor get_item(const Tensor& t, const py::object& index) {
  Selection selection = selection_from(index);
  if (!selection.advanced) {
    // With an ellipsis the result is a view even for a single number.
    if (!selection.ellipsis) selection.items = selection.items + py::make_tuple(py::ellipsis());
    const py::array whole = to_numpy(t.data(), false);
    const py::array view = whole[selection.items].cast<py::array>();
    const Index size = item_size(t.dtype());
    std::vector<Index> strides;
    for (py::ssize_t axis = 0; axis < view.ndim(); ++axis) strides.push_back(view.strides(axis) / size);
    const Index offset =
        t.numel() == 0 ? 0 : (static_cast<const char*>(view.data()) - static_cast<const char*>(t.data().raw())) / size;
    const Shape shape(std::vector<Index>(view.shape(), view.shape() + view.ndim()));
    return excerpt(without_gil(view.size(), [&] { return ops::strided(t, shape, strides, offset); }));
  }
  const py::module_ numpy = py::module_::import("numpy");
  const py::object positions = numpy.attr("arange")(t.numel()).attr("reshape")(shape_tuple(t.shape()))[selection.items];
  Call call("Tensor");
  const Array at = call.integers(positions, "index");
  return without_gil(at.numel(), [&] { return ops::take_flat(t, at, at.shape()); });
}

void def_layout(TensorClass& tensor) {
  tensor
      .def_property_readonly(
          "T", [](const Impl& t) { return transposed(Tensor(t), reversed(Tensor(t))); }, "All axes reversed.")
      .def(
          "reshape",
          [](const Impl& t, const py::args& shape) {
            return ops::reshape(Tensor(t), shape_from(shape, "reshape", "shape"));
          },
          "The same numbers under another shape; one size may be -1.")
      .def(
          "transpose",
          [](const Impl& self, const py::args& axes) {
            const Tensor t(self);
            if (axes.empty() || (axes.size() == 1 && axes[0].is_none())) return transposed(t, reversed(t));
            ops::Axes order;
            const Shape given = shape_from(axes, "transpose", "axes");
            for (const Index axis : given) order.push_back(axis < 0 ? axis + t.rank() : axis);
            return transposed(t, order);
          },
          "Axes in another order; without arguments reversed.")
      .def(
          "swapaxes",
          [](const Impl& self, Index a, Index b) {
            const Tensor t(self);
            return excerpt(without_gil(t.numel(), [&] { return ops::swapaxes(t, a, b); }));
          },
          py::arg("axis1"), py::arg("axis2"), "Two axes exchanged.");
}

void def_indexing(TensorClass& tensor) {
  tensor.def("__getitem__", [](const Impl& t, const py::object& index) { return get_item(Tensor(t), index); })
      .def("__len__",
           [](const TensorImpl& t) {
             if (t.data.rank() == 0) fail_type("len: the Tensor must have an axis; got a Tensor ()");
             return t.data.dim(0);
           })
      .def("__iter__", [](const Impl& t) {
        if (t->data.rank() == 0) fail_type("iter: the Tensor must have an axis; got a Tensor ()");
        py::list rows;
        for (Index i = 0; i < t->data.dim(0); ++i) rows.append(get_item(Tensor(t), py::int_(i)));
        return py::iter(rows);
      });
}

}  // namespace qkv::bindings
