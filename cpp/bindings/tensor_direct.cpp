// What the core answers itself of the class derived from Tensor: arithmetic, functions, reductions and views, each with
// the name that the class shows of it.
#include <algorithm>
#include <array>
#include <cstring>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using ops::Binary;
using ops::Compare;
using ops::Unary;

// Undefined for anything but an object of the class.
Tensor tensor_of(PyObject* value) {
  PyTypeObject *type = Py_TYPE(value), *wanted = classes().tensor;
  if (type != wanted && PyType_IsSubtype(type, wanted) == 0) return {};
  const auto holder = reinterpret_cast<py::detail::instance*>(value)->get_value_and_holder();
  if (!holder.holder_constructed()) return {};
  return Tensor(holder.holder<std::shared_ptr<TensorImpl>>());
}

Tensor floating_of(PyObject* value) {
  Tensor t = tensor_of(value);
  return t.defined() && is_floating(t.dtype()) ? t : Tensor();
}

PyObject* result(const Tensor& t, const char* label = nullptr) {
  if (label != nullptr) set_label(t, label);
  return instance_of(classes().tensor, t);
}

// A view of `of` has its dtype, which of integers the object knows.
PyObject* view_of(PyObject* of, const Tensor& t, const char* label) {
  PyObject* shown = result(t, label);
  if (t.dtype() != DType::int64) return shown;
  static PyObject* const name = PyUnicode_InternFromString("_kind");
  const auto kind = py::reinterpret_steal<py::object>(PyObject_GetAttr(of, name));
  if (!kind || (!kind.is_none() && PyObject_SetAttr(shown, name, kind.ptr()) != 0)) {
    Py_DECREF(shown);
    throw py::error_already_set();
  }
  return shown;
}

// The other operand: a number of Python's in the dtype of x, or a Tensor that has it.
Tensor partner(const Tensor& x, PyObject* value) {
  if (PyFloat_CheckExact(value) != 0) return ops::scalar_like(x, PyFloat_AS_DOUBLE(value));
  if (PyLong_CheckExact(value) != 0) {
    const double number = PyLong_AsDouble(value);
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return ops::scalar_like(x, number);
  }
  Tensor y = tensor_of(value);
  return y.defined() && y.dtype() == x.dtype() ? y : Tensor();
}

const char* label_of(Binary op, bool swapped, bool number) {
  switch (op) {
    case Binary::add:
      return "AddBackward0";
    case Binary::subtract:
      return swapped ? "RsubBackward1" : "SubBackward0";
    case Binary::multiply:
      return "MulBackward0";
    case Binary::divide:
      return "DivBackward0";
    default:
      return number ? "PowBackward0" : "PowBackward1";
  }
}

template <Binary op, bool swapped = false> PyObject* arithmetic(const Given& given) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]);
  if (!x.defined()) return nullptr;
  const Tensor y = partner(x, given.values[1]);
  if (!y.defined()) return nullptr;
  const bool number = PyFloat_CheckExact(given.values[1]) != 0 || PyLong_CheckExact(given.values[1]) != 0;
  const bool root = op == Binary::power && number && PyFloat_CheckExact(given.values[1]) != 0 &&
                    PyFloat_AS_DOUBLE(given.values[1]) == 0.5;
  return result(without_gil(work_of(x, y),
                            [&] {
                              return root      ? ops::unary(Unary::square_root, x)
                                     : swapped ? ops::binary(op, y, x)
                                               : ops::binary(op, x, y);
                            }),
                label_of(op, swapped, number));
}

template <Compare op> PyObject* comparison(const Given& given) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = tensor_of(given.values[0]);
  if (!x.defined()) return nullptr;
  Tensor y = is_floating(x.dtype()) ? partner(x, given.values[1]) : tensor_of(given.values[1]);
  if (x.dtype() == DType::int64 && PyLong_CheckExact(given.values[1]) != 0) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(given.values[1], &overflow);
    if (overflow == 0) y = Tensor(Array::full({}, DType::int64, number));
  }
  if (!y.defined() || y.dtype() != x.dtype()) return nullptr;
  return result(without_gil(work_of(x, y), [&] { return ops::compare(op, x, y); }));
}

Tensor of_one(Unary op, const Tensor& x) { return ops::unary(op, x); }

#define QKV_UNARY(function, label)                                                                  \
  [](const Given& given) -> PyObject* {                                                             \
    const Tensor x = given.by_position(1) ? floating_of(given.values[0]) : Tensor();                \
    return x.defined() ? result(without_gil(x.numel(), [&] { return function; }), label) : nullptr; \
  }

PyObject* clone(const Given& given) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  return view_of(given.values[0], without_gil(x.numel(), [&] { return ops::copy(x); }), "CloneBackward0");
}

PyObject* product(const Given& given) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]), y = tensor_of(given.values[1]);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype()) return nullptr;
  const Index a = x.rank(), b = y.rank();
  const char* label = a == 1 && b == 1   ? "DotBackward0"
                      : a == 2 && b == 1 ? "MvBackward0"
                      : a == 2 && b == 2 ? "MmBackward0"
                      : a == 1 || b == 1 ? "SqueezeBackward4"
                                         : "UnsafeViewBackward0";
  return result(without_gil([&] { return ops::matmul(x, y); }), label);
}

// A whole number that is no bool.
bool read(PyObject* value, Index& number) {
  if (PyLong_CheckExact(value) == 0) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

// An axis counted from the front.
bool read_axis(PyObject* value, Index rank, Index& axis) {
  if (!read(value, axis) || axis < -rank || axis >= rank) return false;
  if (axis < 0) axis += rank;
  return true;
}

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

// The axes and whether they are kept: (t, dim=None, keepdim=False), dim and keepdim also as NumPy spells them.
struct Over {
  std::optional<ops::Axes> axes;
  bool kept = false;
};
bool read(const Given& given, const Tensor& x, Over& over) {
  if (given.count > 3) return false;
  std::array<PyObject*, 2> found{};
  for (Py_ssize_t i = 1; i < given.count; ++i) found[static_cast<std::size_t>(i - 1)] = given.values[i];
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given.names, i));
    if (name == nullptr) throw py::error_already_set();
    const bool axis = std::strcmp(name, "dim") == 0 || std::strcmp(name, "axis") == 0;
    if (!axis && std::strcmp(name, "keepdim") != 0 && std::strcmp(name, "keepdims") != 0) return false;
    PyObject*& place = found[axis ? 0 : 1];
    if (place != nullptr) return false;
    place = given.values[given.count + i];
  }
  if (found[1] != nullptr && PyBool_Check(found[1]) == 0) return false;
  over.kept = found[1] == Py_True;
  if (found[0] == nullptr || found[0] == Py_None) return true;
  ops::Axes axes;
  const bool several = PyTuple_Check(found[0]) != 0;
  for (Py_ssize_t i = 0; i < (several ? PyTuple_GET_SIZE(found[0]) : 1); ++i) {
    Index axis = 0;
    if (!read_axis(several ? PyTuple_GET_ITEM(found[0], i) : found[0], x.rank(), axis)) return false;
    axes.push_back(axis);
  }
  if (!axes.empty()) over.axes = axes;
  return true;
}

using Reduction = Tensor (*)(const Tensor&, const std::optional<ops::Axes>&, bool);
PyObject* reduced(const Given& given, Reduction f, const char* of_all, const char* of_axes) {
  const Tensor x = given.count > 0 ? floating_of(given.values[0]) : Tensor();
  Over over;
  if (!x.defined() || x.rank() == 0 || !read(given, x, over)) return nullptr;
  return result(without_gil(x.numel(), [&] { return f(x, over.axes, over.kept); }),
                over.axes || over.kept ? of_axes : of_all);
}
PyObject* sum(const Given& given) { return reduced(given, ops::sum, "SumBackward0", "SumBackward1"); }
PyObject* mean(const Given& given) { return reduced(given, ops::mean, "MeanBackward0", "MeanBackward1"); }

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

std::span<const Entry> entries() {
  static constexpr Entry all[] = {
      {"add", arithmetic<Binary::add>},
      {"__add__", arithmetic<Binary::add>},
      {"__radd__", arithmetic<Binary::add, true>},
      {"sub", arithmetic<Binary::subtract>},
      {"__sub__", arithmetic<Binary::subtract>},
      {"__rsub__", arithmetic<Binary::subtract, true>},
      {"mul", arithmetic<Binary::multiply>},
      {"__mul__", arithmetic<Binary::multiply>},
      {"__rmul__", arithmetic<Binary::multiply, true>},
      {"div", arithmetic<Binary::divide>},
      {"__truediv__", arithmetic<Binary::divide>},
      {"pow", arithmetic<Binary::power>},
      {"__pow__", arithmetic<Binary::power>},
      {"eq", comparison<Compare::equal>},
      {"__eq__", comparison<Compare::equal>},
      {"ne", comparison<Compare::not_equal>},
      {"__ne__", comparison<Compare::not_equal>},
      {"lt", comparison<Compare::less>},
      {"__lt__", comparison<Compare::less>},
      {"le", comparison<Compare::less_equal>},
      {"__le__", comparison<Compare::less_equal>},
      {"gt", comparison<Compare::greater>},
      {"__gt__", comparison<Compare::greater>},
      {"ge", comparison<Compare::greater_equal>},
      {"__ge__", comparison<Compare::greater_equal>},
      {"exp", QKV_UNARY(of_one(Unary::exponential, x), "ExpBackward0")},
      {"log", QKV_UNARY(of_one(Unary::logarithm, x), "LogBackward0")},
      {"sqrt", QKV_UNARY(of_one(Unary::square_root, x), "SqrtBackward0")},
      {"sin", QKV_UNARY(of_one(Unary::sine, x), "SinBackward0")},
      {"cos", QKV_UNARY(of_one(Unary::cosine, x), "CosBackward0")},
      {"erf", QKV_UNARY(of_one(Unary::error_function, x), "ErfBackward0")},
      {"neg", QKV_UNARY(of_one(Unary::negate, x), "NegBackward0")},
      {"abs", QKV_UNARY(of_one(Unary::absolute, x), "AbsBackward0")},
      {"tanh", QKV_UNARY(ops::tanh(x), "TanhBackward0")},
      {"sigmoid", QKV_UNARY(ops::sigmoid(x), "SigmoidBackward0")},
      {"relu", QKV_UNARY(ops::relu(x), "ReluBackward0")},
      {"clone", clone},
      {"matmul", product},
      {"__matmul__", product},
      {"sum", sum},
      {"mean", mean},
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
