// Views of the class derived from Tensor, and its shape, as the core answers them itself.
#include <algorithm>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "bindings/promotion.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"
#include "ops/shaping.h"

namespace qkv::bindings::direct {
namespace {

// A view f(x, arguments), or x itself; a copy only where the entry has a label for one.
PyObject* shown_view(const Given& given, const Tensor& x, const Tensor& y) {
  const Entry& entry = given.entry;
  if (!y.defined()) return nullptr;
  if (y.impl() == x.impl()) return Py_NewRef(given.values[0]);
  const char* label = y.data().first() == x.data().first() ? entry.label : entry.other_label;
  if (label == nullptr && entry.label != nullptr)
    fail_runtime(entry.names, ": shape must keep axes that do not follow each other in memory apart; got ", x.shape(),
                 " with strides ", std::string(py::str(shape_tuple(x.data().strides()))), " to ", y.shape(),
                 ". Use .reshape(...) instead");
  return view_of(given.values[0], y, label);
}

template <auto f> PyObject* viewed(const Given& given) {
  return []<class... A>(Tensor (*)(const Tensor&, A...), const Given& own) {
    return with_arguments<Tensor, A...>(
        own, [&](const Tensor& x, auto&... arguments) { return shown_view(own, x, f(x, arguments...)); });
  }(f, given);
}

// f(x, numbers), given as such or in a tuple.
template <auto f> PyObject* viewed_by_numbers(const Given& given) {
  const Tensor x = given.count > 1 && given.names == nullptr ? tensor_of(given.values[0]) : Tensor();
  IndexList numbers;
  if (!x.defined() || !read_numbers(given, 1, numbers)) return nullptr;
  return shown_view(given, x, f(x, numbers));
}

Tensor reshaped(const Tensor& x, const IndexList& sizes) { return ops::reshape(x, Shape(sizes.begin(), sizes.end())); }

Tensor permuted(const Tensor& x, IndexList axes) {
  for (Index& axis : axes) axis = axis_from_front("permute", axis, x.rank());
  return ops::transpose(x, axes);
}

Tensor flipped(const Tensor& x, const IndexList& axes) {
  return without_gil(x.numel(), [&] { return ops::copy(ops::flip(x, axes)); });
}

Tensor matrix_transposed(const Tensor& x) {
  if (x.rank() > 2) fail_runtime("t: the Tensor must have at most 2 axes; got shape ", x.shape());
  return x.rank() == 2 ? ops::swapaxes(x, 0, 1) : x;
}

Tensor all_axes_reversed(const Tensor& x) {
  ops::Axes axes;
  for (Index axis = x.rank(); axis-- > 0;) axes.push_back(axis);
  return ops::transpose(x, axes);
}

Tensor reshaped_as(const Tensor& x, const Tensor& other) { return ops::reshape(x, other.shape()); }
Tensor expanded_as(const Tensor& x, const Tensor& other) { return ops::expand(x, other.shape()); }

// Turned by some places along an axis: a copy.
Tensor rolled(const Tensor& x, std::optional<Index> places, Index axis) {
  const Index n = x.dim(axis);
  if (!places || n == 0) return {};
  const Index first = n - (*places % n + n) % n;
  return without_gil(x.numel(), [&] {
    return ops::concatenate({ops::slice(x, axis, first, n), ops::slice(x, axis, 0, first)}, axis);
  });
}

Tensor with_axis_moved(const Tensor& x, Index from, Index to) { return ops::moveaxis(x, {from}, {to}); }

struct NewAxis {
  Index axis = 0;
};
bool take(PyObject* value, Index rank, NewAxis& place) { return read_axis(value, rank + 1, place.axis); }

Tensor unsqueezed(const Tensor& x, NewAxis place) { return ops::add_axes("unsqueeze", x, {place.axis}); }

Tensor flattened(const Tensor& x, std::optional<Index> from, std::optional<Index> to) {
  const Index begin = from.value_or(0), end = to.value_or(-1), first = axis_from_front("flatten", begin, x.rank()),
              last = axis_from_front("flatten", end, x.rank());
  if (first > last) fail_runtime("flatten: end_dim must not come before start_dim; got ", begin, " and ", end);
  if (x.rank() == 0) return ops::reshape(x, {1});
  if (first == last) return x;
  Shape shape(x.shape().begin(), x.shape().begin() + first);
  shape.push_back(x.shape().product(first, last + 1));
  for (Index axis = last + 1; axis < x.rank(); ++axis) shape.push_back(x.dim(axis));
  return ops::reshape(x, shape);
}

Tensor detached(const Tensor& x) { return x.detach(); }

Tensor expanded(const Tensor& x, const IndexList& sizes) { return ops::expand(x, Shape(sizes.begin(), sizes.end())); }

Tensor narrowed(const Tensor& x, Index axis, std::optional<Index> start, std::optional<Index> length) {
  const Index size = x.dim(axis);
  if (!start || !length) return {};
  const Index begin = *start < 0 ? *start + size : *start;
  if (begin < 0 || *length < 0 || begin > size || *length > size - begin)
    fail_runtime("narrow: start and length must stay within the ", size, " entries of axis ", axis, "; got start ",
                 *start, ", length ", *length);
  return ops::slice(x, axis, begin, begin + *length);
}

Tensor diagonal(const Tensor& x, std::optional<Index> offset, std::optional<Index> axis1, std::optional<Index> axis2) {
  return ops::diagonal(x, offset.value_or(0), axis1.value_or(0), axis2.value_or(1));
}

// An entry of an axis, which goes.
Tensor entry_of_axis(const Tensor& x, Index axis, Index place) {
  py::tuple index(axis + 1);
  for (Index i = 0; i < axis; ++i) index[i] = py::slice(std::nullopt, std::nullopt, std::nullopt);
  index[axis] = place;
  return plain_part_of(x, index).value_or(Tensor());
}

Tensor selected(const Tensor& x, Index axis, std::optional<Index> place) {
  return place ? entry_of_axis(x, axis, *place) : Tensor();
}

PyObject* unbound(const Given& given, const Tensor& x, std::optional<Index> dim) {
  const Index axis = ops::checked_axis("", dim.value_or(0), x.rank());
  py::tuple parts(x.dim(axis));
  for (Index i = 0; i < x.dim(axis); ++i) {
    const Tensor part = entry_of_axis(x, axis, i);
    if (!part.defined()) return nullptr;
    parts[i] = py::reinterpret_steal<py::object>(view_of(given.values[0], part, given.entry.label));
  }
  return parts.release().ptr();
}

PyObject* contiguous(const Given& given, const Tensor& x) {
  if (x.data().is_packed()) return Py_NewRef(given.values[0]);
  return view_of(given.values[0], without_gil(x.numel(), [&] { return ops::copy(x); }), given.entry.label);
}

// Itself if it has the dtype.
template <DType wanted> PyObject* converted(const Given& given, const Typed& own) {
  const Kind& kind = kind_of(wanted);
  if (own.kind == &kind) return Py_NewRef(own.value);
  return result(without_gil(own.tensor.numel(), [&] { return own.in(kind); }), given.entry.label);
}

// Without the axes of size 1: all, one, or those of a tuple.
PyObject* squeezed(const Given& given, const Tensor& x, PyObject* dim) {
  const bool all = dim == nullptr || dim == Py_None;
  const bool several = !all && (PyTuple_Check(dim) != 0 || PyList_CheckExact(dim) != 0);
  if (!all && !several && PyLong_CheckExact(dim) == 0) return nullptr;
  IndexList gone = all ? IndexList() : shape_from(dim, "", "");
  for (Index& axis : gone) axis = axis_from_front("squeeze", axis, x.rank());
  Shape shape;
  for (Index i = 0; i < x.rank(); ++i)
    if (x.dim(i) != 1 || (!all && std::find(gone.begin(), gone.end(), i) == gone.end())) shape.push_back(x.dim(i));
  const char* label = all ? given.entry.label : several ? "SqueezeBackward2" : given.entry.other_label;
  return view_of(given.values[0], ops::reshape(x, shape), label);
}

// The name of a view by whole numbers, slices that go forward, None and an ellipsis; null for another index.
const char* item_label(PyObject* index) {
  const bool several = PyTuple_CheckExact(index) != 0;
  const char* label = "AliasBackward0";
  bool first = true;
  for (Py_ssize_t i = 0; i < (several ? PyTuple_GET_SIZE(index) : 1); ++i) {
    PyObject* one = several ? PyTuple_GET_ITEM(index, i) : index;
    if (one == Py_Ellipsis) continue;
    if (one == Py_None) {
      label = "UnsqueezeBackward0";
    } else if (PyLong_CheckExact(one) != 0) {
      label = "SelectBackward0";
    } else if (PySlice_Check(one) != 0) {
      const auto* slice = reinterpret_cast<PySliceObject*>(one);
      Index step = 1;
      if (slice->step != Py_None && (!read(slice->step, step) || step < 1)) return nullptr;
      if (first || slice->start != Py_None || slice->stop != Py_None || slice->step != Py_None)
        label = "SliceBackward0";
    } else {
      return nullptr;
    }
    first = false;
  }
  return label;
}

// Whether it is one Tensor of numbers of places or of booleans.
bool is_advanced(py::handle index) {
  const Tensor places = tensor_of(index.ptr());
  return places.defined() && places.rank() > 0 && !is_floating(places.dtype());
}

// By these, or by one Tensor of numbers of places or of booleans.
PyObject* item(const Given& given, const Tensor& x, py::handle index) {
  if (is_advanced(index))
    return view_of(given.values[0], get_item(x, py::reinterpret_borrow<py::object>(index)), given.entry.label);
  const char* label = item_label(index.ptr());
  const auto part = label == nullptr ? std::nullopt : plain_part_of(x, index);
  return part ? view_of(given.values[0], *part, label) : nullptr;
}

PyObject* item_set(const Given& given, const Typed& own, py::handle places, const Operand& value) {
  const Tensor& x = own.tensor;
  const bool advanced = is_advanced(places);
  if (!advanced && (item_label(places.ptr()) == nullptr || !plain_part_of(x, places))) return nullptr;
  set_item(x, py::reinterpret_borrow<py::object>(places), py::cast(value.in(*own.kind)));
  set_label(x, advanced ? given.entry.other_label : given.entry.label);
  return Py_NewRef(Py_None);
}

PyObject* length(const Given&, const Tensor& x) { return x.rank() > 0 ? PyLong_FromLongLong(x.dim(0)) : nullptr; }
PyObject* count_of_axes(const Given&, const Tensor& x) { return PyLong_FromLongLong(x.rank()); }
PyObject* count_of_numbers(const Given&, const Tensor& x) { return PyLong_FromLongLong(x.numel()); }

// Of all axes, or of one.
PyObject* shape(const Given&, const Tensor& x, PyObject* dim) {
  if (Index axis = 0; dim != nullptr)
    return read_axis(dim, x.rank(), axis) ? PyLong_FromLongLong(x.dim(axis)) : nullptr;
  static PyTypeObject* const cls = class_named("shape");
  auto sizes = py::reinterpret_steal<py::object>(cls->tp_alloc(cls, x.rank()));
  if (!sizes) throw py::error_already_set();
  for (Index axis = 0; axis < x.rank(); ++axis) {
    PyObject* size = PyLong_FromLongLong(x.dim(axis));
    if (size == nullptr) throw py::error_already_set();
    PyTuple_SET_ITEM(sizes.ptr(), axis, size);
  }
  return sizes.release().ptr();
}

}  // namespace

std::span<const Entry> view_entries() {
  static constexpr Entry all[] = {
      {"view", viewed_by_numbers<reshaped>, "ViewBackward0"},
      {"reshape", viewed_by_numbers<reshaped>, "ViewBackward0", "UnsafeViewBackward0"},
      {"transpose swapaxes swapdims", viewed<ops::swapaxes>, "TransposeBackward0"},
      {"roll", "shifts, dims", viewed<rolled>, "RollBackward0", "RollBackward0"},
      {"movedim moveaxis", viewed<with_axis_moved>, "PermuteBackward0"},
      {"permute", viewed_by_numbers<permuted>, "PermuteBackward0"},
      {"flip", viewed_by_numbers<flipped>, nullptr, "FlipBackward0"},
      {"t", viewed<matrix_transposed>, "TBackward0"},
      {"T", viewed<all_axes_reversed>, "PermuteBackward0"},
      {"view_as reshape_as", viewed<reshaped_as>, "ViewBackward0", "UnsafeViewBackward0"},
      {"expand_as", viewed<expanded_as>, "ExpandBackward0"},
      {"unsqueeze", viewed<unsqueezed>, "UnsqueezeBackward0"},
      {"squeeze", "dim|axis", call<squeezed>, "SqueezeBackward0", "SqueezeBackward1"},
      {"expand", viewed_by_numbers<expanded>, "ExpandBackward0"},
      {"detach", viewed<detached>},
      {"flatten", "start_dim, end_dim", viewed<flattened>, "ViewBackward0", "UnsafeViewBackward0"},
      {"diagonal", "offset, dim1, dim2", viewed<diagonal>, "DiagonalBackward0", "DiagonalBackward0"},
      {"__getitem__", call<item>, "IndexBackward0"},
      {"__setitem__", call<item_set>, "CopySlices", "IndexPutBackward0"},
      {"narrow", viewed<narrowed>, "SliceBackward0", "SliceBackward0"},
      {"select", viewed<selected>, "SelectBackward0", "SelectBackward0"},
      {"unbind", "dim|axis", call<unbound>, "UnbindBackward0"},
      {"contiguous", call<contiguous>, "CloneBackward0"},
      {"float", call<converted<DType::float32>>, "ToCopyBackward0"},
      {"double", call<converted<DType::float64>>, "ToCopyBackward0"},
      {"long", call<converted<DType::int64>>, "ToCopyBackward0"},
      {"bool", call<converted<DType::boolean>>, "ToCopyBackward0"},
      {"shape size", call<shape>},
      {"__len__", call<length>},
      {"dim ndimension", call<count_of_axes>},
      {"numel nelement", call<count_of_numbers>},
  };
  return all;
}

}  // namespace qkv::bindings::direct
