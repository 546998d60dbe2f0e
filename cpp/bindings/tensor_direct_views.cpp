// Views of the class derived from Tensor, and its shape, as the core answers them itself.
#include <algorithm>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

// f(2, 3), f((2, 3)), f([2, 3]).
bool read_all(const Given& given, IndexList& numbers) {
  if (given.names != nullptr) return false;
  PyObject* const* values = given.values + 1;
  Py_ssize_t count = given.count - 1;
  if (count == 1 && (PyTuple_Check(values[0]) != 0 || PyList_CheckExact(values[0]) != 0)) {
    count = PySequence_Fast_GET_SIZE(values[0]);
    values = PySequence_Fast_ITEMS(values[0]);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    Index number = 0;
    if (!read(values[i], number)) return false;
    numbers.push_back(number);
  }
  return true;
}

PyObject* reshape(const Given& given, bool must_be_view) {
  const Tensor x = given.count > 1 ? tensor_of(given.values[0]) : Tensor();
  IndexList sizes;
  if (!x.defined() || !read_all(given, sizes)) return nullptr;
  const Tensor y = ops::reshape(x, Shape(sizes.begin(), sizes.end()));
  const bool view = y.data().first() == x.data().first();
  if (must_be_view && !view) return nullptr;
  return view_of(given.values[0], y, view ? "ViewBackward0" : "UnsafeViewBackward0");
}

PyObject* swapped_axes(const Given& given) {
  const Tensor x = given.by_position(3) ? tensor_of(given.values[0]) : Tensor();
  Index a = 0, b = 0;
  if (!x.defined() || !read_axis(given.values[1], x.rank(), a) || !read_axis(given.values[2], x.rank(), b))
    return nullptr;
  return view_of(given.values[0], ops::swapaxes(x, a, b), "TransposeBackward0");
}

PyObject* permuted(const Given& given) {
  const Tensor x = given.count > 1 ? tensor_of(given.values[0]) : Tensor();
  IndexList axes;
  if (!x.defined() || !read_all(given, axes)) return nullptr;
  for (Index& axis : axes)
    if (axis < 0) axis += x.rank();
  return view_of(given.values[0], ops::transpose(x, axes), "PermuteBackward0");
}

PyObject* matrix_transposed(const Given& given) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined() || x.rank() != 2) return nullptr;
  return view_of(given.values[0], ops::swapaxes(x, 0, 1), "TBackward0");
}

PyObject* all_axes_reversed(const Given& given) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  ops::Axes axes;
  for (Index axis = x.rank(); axis-- > 0;) axes.push_back(axis);
  return view_of(given.values[0], ops::transpose(x, axes), "PermuteBackward0");
}

PyObject* unsqueezed(const Given& given) {
  const Tensor x = given.by_position(2) ? tensor_of(given.values[0]) : Tensor();
  Index axis = 0;
  if (!x.defined() || !read_axis(given.values[1], x.rank() + 1, axis)) return nullptr;
  Shape shape;
  for (Index i = 0; i <= x.rank(); ++i) {
    if (i == axis) shape.push_back(1);
    if (i < x.rank()) shape.push_back(x.dim(i));
  }
  return view_of(given.values[0], ops::reshape(x, shape), "UnsqueezeBackward0");
}

PyObject* squeezed(const Given& given) {
  const Tensor x = given.count > 0 && given.count < 3 && given.names == nullptr ? tensor_of(given.values[0]) : Tensor();
  Index gone = -1;
  if (!x.defined() || (given.count == 2 && !read_axis(given.values[1], x.rank(), gone))) return nullptr;
  Shape shape;
  for (Index i = 0; i < x.rank(); ++i)
    if (x.dim(i) != 1 || (gone >= 0 && i != gone)) shape.push_back(x.dim(i));
  return view_of(given.values[0], ops::reshape(x, shape), gone < 0 ? "SqueezeBackward0" : "SqueezeBackward1");
}

PyObject* expanded(const Given& given) {
  const Tensor x = given.count > 1 ? tensor_of(given.values[0]) : Tensor();
  IndexList sizes;
  if (!x.defined() || !read_all(given, sizes)) return nullptr;
  const Index extra = static_cast<Index>(sizes.size()) - x.rank();
  if (extra < 0) return nullptr;
  for (Index axis = 0; axis < x.rank(); ++axis) {
    Index& size = sizes[static_cast<std::size_t>(axis + extra)];
    if (size == -1) size = x.dim(axis);
    if (x.dim(axis) != 1 && x.dim(axis) != size) return nullptr;
  }
  if (std::any_of(sizes.begin(), sizes.end(), [](Index size) { return size < 0; })) return nullptr;
  return view_of(given.values[0], ops::broadcast_to(x, Shape(sizes.begin(), sizes.end())), "ExpandBackward0");
}

PyObject* detached(const Given& given) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  return x.defined() ? view_of(given.values[0], x.detach(), nullptr) : nullptr;
}

// By whole numbers and slices that go forward, None and an ellipsis.
PyObject* item(const Given& given) {
  const Tensor x = given.by_position(2) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  PyObject* index = given.values[1];
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
  const auto part = plain_part_of(x, index);
  return part ? view_of(given.values[0], *part, label) : nullptr;
}

PyObject* shape(const Given& given) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  auto sizes = py::reinterpret_steal<py::object>(classes().shape->tp_alloc(classes().shape, x.rank()));
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
      {"view", [](const Given& given) { return reshape(given, true); }},
      {"reshape", [](const Given& given) { return reshape(given, false); }},
      {"transpose", swapped_axes},
      {"permute", permuted},
      {"t", matrix_transposed},
      {"T", all_axes_reversed},
      {"unsqueeze", unsqueezed},
      {"squeeze", squeezed},
      {"expand", expanded},
      {"detach", detached},
      {"__getitem__", item},
      {"shape", shape},
  };
  return all;
}

}  // namespace qkv::bindings::direct
