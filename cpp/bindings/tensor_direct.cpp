// What the core answers itself of the class derived from Tensor: arithmetic and functions number by number, and matrix
// products, each with the name that the class shows of it.
#include <algorithm>
#include <array>
#include <cstring>

#include "autograd/in_place.h"
#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
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

PyObject* result(const Tensor& t, const char* label) {
  if (label != nullptr) set_label(t, label);
  return instance_of(classes().tensor, t);
}

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

bool read(PyObject* value, Index& number) {
  if (PyLong_CheckExact(value) == 0) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool read_axis(PyObject* value, Index rank, Index& axis) {
  if (!read(value, axis) || axis < -rank || axis >= rank) return false;
  if (axis < 0) axis += rank;
  return true;
}

bool read(PyObject* value, double& number) {
  if (PyFloat_CheckExact(value) == 0 && PyLong_CheckExact(value) == 0) return false;
  number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return true;
}

bool read_parameters(const Given& given, std::span<const Parameter> parameters, std::span<PyObject*> values) {
  if (given.count - 1 > std::ssize(parameters)) return false;
  for (Py_ssize_t i = 1; i < given.count; ++i) values[static_cast<std::size_t>(i - 1)] = given.values[i];
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given.names, i));
    if (name == nullptr) throw py::error_already_set();
    const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& one) {
      return std::strcmp(one.name, name) == 0 || (one.other != nullptr && std::strcmp(one.other, name) == 0);
    });
    if (found == parameters.end()) return false;
    PyObject*& place = values[static_cast<std::size_t>(found - parameters.begin())];
    if (place != nullptr) return false;
    place = given.values[given.count + i];
  }
  return true;
}

namespace {

using ops::Binary;
using ops::Compare;
using ops::Unary;

// The other operand: a number of Python's in the dtype of x, or a Tensor that has it.
Tensor partner(const Tensor& x, PyObject* value) {
  double number = 0;
  if (read(value, number)) return ops::scalar_like(x, number);
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

// Where nothing is recorded.
template <Binary op> PyObject* changed(const Given& given) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]);
  if (!x.defined()) return nullptr;
  const Tensor other = partner(x, given.values[1]);
  if (!other.defined() || wants_gradient({x, other})) return nullptr;
  check_changeable("in place", x);
  const Tensor result = without_gil(work_of(x, other), [&] { return ops::binary(op, x, other); });
  if (result.shape() != x.shape()) return nullptr;
  set_in_place("in place", x, result);
  return Py_NewRef(given.values[0]);
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

// Where a condition holds the numbers of one, else those of the other, of which one may be a number.
PyObject* chosen(const Given& given) {
  if (!given.by_position(3)) return nullptr;
  const Tensor condition = tensor_of(given.values[0]);
  if (!condition.defined() || condition.dtype() != DType::boolean) return nullptr;
  Tensor x = floating_of(given.values[1]), y = floating_of(given.values[2]);
  if (!x.defined() && !y.defined()) return nullptr;
  if (!x.defined()) x = partner(y, given.values[1]);
  if (!y.defined()) y = partner(x, given.values[2]);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype()) return nullptr;
  return result(without_gil(work_of(x, y), [&] { return ops::where(condition, x, y); }), "WhereBackward0");
}

PyObject* mask_filled(const Given& given) {
  if (!given.by_position(3)) return nullptr;
  const Tensor x = floating_of(given.values[0]), mask = tensor_of(given.values[1]);
  double number = 0;
  if (!x.defined() || !mask.defined() || mask.dtype() != DType::boolean || !read(given.values[2], number))
    return nullptr;
  const Tensor filling = ops::scalar_like(x, number);
  return result(without_gil(work_of(x, mask), [&] { return ops::where(mask, filling, x); }), "MaskedFillBackward0");
}

PyObject* clamped(const Given& given) {
  const Tensor x = given.count > 0 ? floating_of(given.values[0]) : Tensor();
  static constexpr Parameter parameters[] = {{"min"}, {"max"}};
  std::array<PyObject*, 2> bounds{};
  if (!x.defined() || !read_parameters(given, parameters, bounds)) return nullptr;
  std::array<std::optional<double>, 2> numbers;
  for (std::size_t i = 0; i < 2; ++i) {
    if (bounds[i] == nullptr || bounds[i] == Py_None) continue;
    if (!read(bounds[i], numbers[i].emplace())) return nullptr;
  }
  const auto [low, high] = numbers;
  if ((!low && !high) || (low && high && !(*low <= *high))) return nullptr;
  return result(without_gil(x.numel(), [&] { return ops::clip(x, numbers[0], numbers[1]); }), "ClampBackward1");
}

}  // namespace

std::span<const Entry> number_entries() {
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
      {"add_", changed<Binary::add>},
      {"__iadd__", changed<Binary::add>},
      {"sub_", changed<Binary::subtract>},
      {"__isub__", changed<Binary::subtract>},
      {"mul_", changed<Binary::multiply>},
      {"__imul__", changed<Binary::multiply>},
      {"div_", changed<Binary::divide>},
      {"__itruediv__", changed<Binary::divide>},
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
      {"where", chosen},
      {"masked_fill", mask_filled},
      {"clamp", clamped},
      {"clip", clamped},
  };
  return all;
}

}  // namespace qkv::bindings::direct
