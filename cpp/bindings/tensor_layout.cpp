// Where the numbers of Python's class Tensor stand.
#include <algorithm>

#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using Impl = std::shared_ptr<TensorImpl>;

Tensor transposed(const Tensor& t, const ops::Axes& axes) { return ops::transpose(t, axes); }

ops::Axes reversed(const Tensor& t) {
  ops::Axes axes;
  for (Index axis = t.rank(); axis-- > 0;) axes.push_back(axis);
  return axes;
}

// The sizes of the result's axes, with 1 where it says so.
Tensor with_axes(const Tensor& t, py::handle axis, const char* operation) {
  const Shape places = shape_from(axis, operation, "axis");
  const Index rank = t.rank() + places.rank();
  Shape shape(static_cast<std::size_t>(rank), 0);
  for (const Index place : places) {
    if (place < -rank || place >= rank)
      fail_value(operation, ": axis must be from ", -rank, " to ", rank - 1, " because the result has ", rank,
                 " axes; got ", place);
    Index& size = shape[static_cast<std::size_t>(place < 0 ? place + rank : place)];
    if (size == 1) fail_value(operation, ": axis must name each axis once; got ", described(axis));
    size = 1;
  }
  const Index* next = t.shape().begin();
  std::vector<bool> added;
  for (const Index size : shape) added.push_back(size == 1);
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!added[i]) shape[i] = *next++;
  return ops::reshape(t, shape);
}

Tensor without_axes(const Tensor& t, py::handle axis) {
  std::vector<bool> left_out(t.shape().size(), false);
  if (axis.is_none())
    for (std::size_t i = 0; i < left_out.size(); ++i) left_out[i] = t.shape()[i] == 1;
  else
    for (const Index given : shape_from(axis, "squeeze", "axis")) {
      const Index at = ops::checked_axis("squeeze", given, t.rank());
      if (t.dim(at) != 1)
        fail_value("squeeze: axis must name axes of size 1; got axis ", given, " of a Tensor ", t.shape());
      left_out[static_cast<std::size_t>(at)] = true;
    }
  Shape shape;
  for (std::size_t i = 0; i < left_out.size(); ++i)
    if (!left_out[i]) shape.push_back(t.shape()[i]);
  return ops::reshape(t, shape);
}

Tensor flattened(const Tensor& t, Index start, Index end) {
  Shape shape;
  if (t.rank() > 0) {
    const Index first = ops::checked_axis("flatten", start, t.rank()),
                last = ops::checked_axis("flatten", end, t.rank());
    if (first > last)
      fail_value("flatten: start_axis must not stand behind end_axis; got start_axis = ", start, ", end_axis = ", end);
    for (Index axis = 0; axis < first; ++axis) shape.push_back(t.dim(axis));
    shape.push_back(t.shape().product(first, last + 1));
    for (Index axis = last + 1; axis < t.rank(); ++axis) shape.push_back(t.dim(axis));
  } else {
    shape.push_back(1);
  }
  return ops::reshape(ops::copy(t), shape);
}

// -1 keeps the size that the axis has.
Shape expanded(const Tensor& t, Shape shape) {
  const Index extra = shape.rank() - t.rank();
  for (Index axis = 0; axis < shape.rank(); ++axis) {
    Index& size = shape[static_cast<std::size_t>(axis)];
    if (size == -1 && axis >= extra && extra >= 0) size = t.dim(axis - extra);
    if (size < 0)
      fail_value("broadcast_to: shape must hold sizes, or -1 for an axis of the Tensor ", t.shape(), "; got ", shape);
  }
  return shape;
}

Tensor repeated(const Impl& self, py::handle repeats, const py::args& more, py::handle axis) {
  if (!more.empty())
    fail_type(
        "repeat: axis must be given by name because PyTorch's repeat(2, 1) means something else; write repeat(2, "
        "axis=1), or np.tile(t, (2, 1)) for PyTorch's; got ",
        more.size() + 1, " arguments by position");
  const std::optional<Index> given = one_axis_from(axis, "repeat");
  const Tensor t = given ? Tensor(self) : ops::reshape(Tensor(self), {-1});
  const Index along = ops::checked_axis("repeat", given.value_or(0), t.rank());
  const auto alike = [&](Index count) {
    const Index work = count > 4096 ? count : t.numel() * std::max<Index>(count, 1);
    return without_gil(work, [&] { return ops::repeat(t, count, along); });
  };
  int overflow = 0;
  if (PyLong_CheckExact(repeats.ptr()) != 0)  // no array is made of it
    if (const long long count = PyLong_AsLongLongAndOverflow(repeats.ptr(), &overflow); overflow == 0)
      return alike(static_cast<Index>(count));
  Call call("repeat");
  const Array times = call.integers(repeats, "repeats", false);
  const Index n = t.dim(along);
  if (times.numel() == 1) return alike(*times.data<std::int64_t>());
  if (times.shape() != Shape{n})
    fail_value("repeat: repeats must be one number, or ", n, " because axis ", along,
               " has so many places; got repeats ", times.shape());
  const std::int64_t* each = times.data<std::int64_t>();
  if (std::any_of(each, each + n, [](std::int64_t count) { return count < 0; }))
    fail_value("repeat: repeats must be at least 0; got a negative one");
  const py::module_ numpy = py::module_::import("numpy");
  py::list index;
  for (Index i = 0; i < along; ++i) index.append(py::slice(py::none(), py::none(), py::none()));
  index.append(numpy.attr("repeat")(numpy.attr("arange")(n), to_numpy(times, false)));
  return get_item(t, py::tuple(index));
}

}  // namespace

void def_layout(TensorClass& tensor) {
  tensor
      .def_property_readonly(
          "T", [](const Impl& t) { return transposed(Tensor(t), reversed(Tensor(t))); }, "All axes reversed.")
      .def("reshape", "The same numbers under another shape; one size may be -1. A view, where strides allow it.",
           [](const Impl& t, const py::args& shape) {
             return ops::reshape(Tensor(t), shape_from(shape, "reshape", "shape"));
           })
      .def("transpose", "Axes in another order; without arguments reversed. A view.",
           [](const Impl& self, const py::args& axes) {
             const Tensor t(self);
             if (axes.empty() || (axes.size() == 1 && axes[0].is_none())) return transposed(t, reversed(t));
             ops::Axes order;
             const Shape given = shape_from(axes, "transpose", "axes");
             for (const Index axis : given) order.push_back(axis < 0 ? axis + t.rank() : axis);
             return transposed(t, order);
           })
      .def("swapaxes(axis1, axis2)", "Two axes exchanged; a view.",
           [](const Impl& self, Index a, Index b) { return ops::swapaxes(Tensor(self), a, b); })
      .def("unsqueeze(axis)", "With an axis of size 1 at this place of the result; also a tuple of axes.",
           [](const Impl& t, py::handle axis) { return with_axes(Tensor(t), axis, "unsqueeze"); })
      .def("expand_dims(axis)", "With an axis of size 1 at this place of the result; also a tuple of axes.",
           [](const Impl& t, py::handle axis) { return with_axes(Tensor(t), axis, "expand_dims"); })
      .def("squeeze(axis=None)", "Without axes of size 1: all of them, or the one or those that are named.",
           [](const Impl& t, py::handle axis) { return without_axes(Tensor(t), axis); })
      .def("flatten(start_axis=0, end_axis=-1)", "Neighbouring axes, all unless said, as one; a copy.",
           [](const Impl& t, Index start, Index end) { return flattened(Tensor(t), start, end); })
      .def("ravel", "The numbers along one axis.", [](const Impl& t) { return ops::reshape(Tensor(t), {-1}); })
      .def("broadcast_to",
           "Repeated along axes of size 1 and new axes in front, by NumPy's rules; -1 keeps an axis. A view.",
           [](const Impl& self, const py::args& shape) {
             const Tensor t(self);
             const Shape to = expanded(t, shape_from(shape, "broadcast_to", "shape"));
             return ops::broadcast_to(t, to);
           })
      .def("diagonal(offset=0, axis1=0, axis2=1)",
           "The diagonal of two axes, along a last axis instead of both; a view.",
           [](const Impl& t, Index offset, Index a, Index b) { return ops::diagonal(Tensor(t), offset, a, b); })
      .def("repeat(repeats, axis=None)",
           "Each number so many times, next to each other, along an axis or of the flattened Tensor, as NumPy's; "
           "np.tile repeats the whole.",
           repeated)
      .def("copy", "The same numbers in memory of their own; gradients flow back. detach() leaves the history behind.",
           [](const Impl& self) {
             const Tensor t(self);
             return without_gil(t.numel(), [&] { return ops::copy(t); });
           });
}

}  // namespace qkv::bindings
