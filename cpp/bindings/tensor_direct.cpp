// What the core answers itself of the class derived from Tensor: arithmetic and functions number by number, matrix
// products, and filled ones, each with the name that the class shows of it.
#include <algorithm>
#include <array>
#include <cstring>
#include <numbers>
#include <stdexcept>

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

py::object kind_of(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("_kind");
  auto kind = py::reinterpret_steal<py::object>(PyObject_GetAttr(tensor, name));
  if (!kind) throw py::error_already_set();
  return kind;
}

PyObject* view_of(PyObject* of, const Tensor& t, const char* label) {
  auto shown = py::reinterpret_steal<py::object>(result(t, label));
  if (t.dtype() == DType::int64)
    if (const py::object kind = kind_of(of); !kind.is_none()) shown.attr("_kind") = kind;
  return shown.release().ptr();
}

bool read(PyObject* value, Index& number) {
  if (value == nullptr || PyLong_CheckExact(value) == 0) return false;
  int overflow = 0;
  number = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool read_axis(PyObject* value, Index rank, Index& axis) {
  if (!read(value, axis) || axis < -rank || axis >= rank) return false;
  if (axis < 0) axis += rank;
  return true;
}

bool read_numbers(const Given& given, Py_ssize_t skipped, IndexList& numbers) {
  PyObject* first = given.values[skipped];
  if (given.count == skipped + 1 && (PyTuple_Check(first) != 0 || PyList_CheckExact(first) != 0)) {
    numbers = shape_from(first, "", "");
    return true;
  }
  Index number = 0;
  for (Py_ssize_t i = skipped; i < given.count; numbers.push_back(number), ++i)
    if (!read(given.values[i], number)) return false;
  return true;
}

bool read(PyObject* value, double& number) {
  if (PyFloat_CheckExact(value) == 0 && PyLong_CheckExact(value) == 0) return false;
  number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return true;
}

bool take(PyObject* value, const Tensor& x, std::optional<IndexList>& axes) {
  if (value == nullptr || value == Py_None) return true;
  if (PyLong_CheckExact(value) == 0 && PyTuple_Check(value) == 0) return false;
  axes = axes_from(value, "");
  for (Index& axis : *axes)
    if (axis += axis < 0 ? x.rank() : 0; axis < 0 || axis >= x.rank()) return false;
  if (axes->empty()) axes.reset();  // means all
  return true;
}

bool take(PyObject* value, const Tensor&, bool& flag) {
  if (value == nullptr) return true;
  flag = value == Py_True;
  return PyBool_Check(value) != 0;
}

bool read_parameters(const Given& given, std::span<const Parameter> parameters, std::span<PyObject*> values) {
  if (given.count - 1 > std::ssize(parameters)) return false;
  for (Py_ssize_t i = 1; i < given.count; ++i) values[static_cast<std::size_t>(i - 1)] = given.values[i];
  const Py_ssize_t named = given.names == nullptr ? 0 : PyTuple_GET_SIZE(given.names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given.names, i));
    if (name == nullptr) throw py::error_already_set();
    const auto is = [name](const char* known) { return known != nullptr && std::strcmp(known, name) == 0; };
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& one) { return is(one.name) || is(one.other); });
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
  Index whole = 0;
  if (is_floating(x.dtype()) && read(value, number)) return ops::scalar_like(x, number);
  if (x.dtype() == DType::int64 && read(value, whole)) return Tensor(Array::full({}, DType::int64, whole));
  Tensor y = tensor_of(value);
  return y.defined() && y.dtype() == x.dtype() ? y : Tensor();
}

// Both operands of a call; the second is undefined if it is another one. Of whole numbers those of int64 alone: Python
// cuts narrower ones to their width, and they become floating ones in a quotient or a power.
std::pair<Tensor, Tensor> operands(const Given& given, Binary op) {
  const Tensor x = given.by_position(2) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined() || x.dtype() == DType::boolean) return {};
  Tensor y = partner(x, given.values[1]);
  if (is_floating(x.dtype()) || !y.defined()) return {x, y};
  const bool whole = op == Binary::add || op == Binary::subtract || op == Binary::multiply;
  const bool narrow = !kind_of(given.values[0]).is_none() ||
                      (PyLong_CheckExact(given.values[1]) == 0 && !kind_of(given.values[1]).is_none());
  return {x, whole && !narrow ? y : Tensor()};
}

// With a label of its own beside a Tensor, if there is one.
template <Binary op, bool swapped = false> PyObject* arithmetic(const Given& given, const Entry& entry) {
  const auto [x, y] = operands(given, op);
  if (!y.defined()) return nullptr;
  const bool number = PyFloat_CheckExact(given.values[1]) != 0 || PyLong_CheckExact(given.values[1]) != 0;
  const bool root = op == Binary::power && !swapped && number && PyFloat_CheckExact(given.values[1]) != 0 &&
                    PyFloat_AS_DOUBLE(given.values[1]) == 0.5;
  return result(without_gil(work_of(x, y),
                            [&, &x = x, &y = y] {
                              return root      ? ops::unary(Unary::square_root, x)
                                     : swapped ? ops::binary(op, y, x)
                                               : ops::binary(op, x, y);
                            }),
                number || entry.other_label == nullptr ? entry.label : entry.other_label);
}

Tensor reciprocal(const Tensor& x) { return ops::divide(ops::scalar_like(x, 1), x); }

// A number over a Tensor: PyTorch multiplies by the reciprocal.
PyObject* number_over(const Given& given, const Entry& entry) {
  double number = 0;
  const Tensor x = given.by_position(2) ? floating_of(given.values[0]) : Tensor();
  if (!x.defined() || !read(given.values[1], number)) return nullptr;
  return result(without_gil(x.numel(),
                            [&] {
                              const Tensor inverse = reciprocal(x);
                              set_label(inverse, "ReciprocalBackward0");
                              return ops::multiply(inverse, ops::scalar_like(x, number));
                            }),
                entry.label);
}

Tensor boolean_of(PyObject* value) {
  Tensor t = tensor_of(value);
  return t.defined() && t.dtype() == DType::boolean ? t : Tensor();
}

template <ops::Bitwise op> PyObject* both(const Given& given, const Entry&) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = boolean_of(given.values[0]), y = boolean_of(given.values[1]);
  if (!x.defined() || !y.defined()) return nullptr;
  return result(without_gil(work_of(x, y), [&] { return ops::bitwise(op, x, y); }));
}

PyObject* turned_round(const Given& given, const Entry&) {
  const Tensor x = given.by_position(1) ? boolean_of(given.values[0]) : Tensor();
  return x.defined() ? result(without_gil(x.numel(), [&] { return ops::invert(x); })) : nullptr;
}

// Where nothing is recorded.
template <Binary op> PyObject* changed(const Given& given, const Entry&) {
  const auto [x, other] = operands(given, op);
  if (!other.defined() || wants_gradient({x, other})) return nullptr;
  check_changeable("in place", x);
  const Tensor result =
      without_gil(work_of(x, other), [&, &x = x, &other = other] { return ops::binary(op, x, other); });
  if (result.shape() != x.shape()) return nullptr;
  set_in_place("in place", x, result);
  return Py_NewRef(given.values[0]);
}

template <Compare op> PyObject* comparison(const Given& given, const Entry&) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = tensor_of(given.values[0]), y = x.defined() ? partner(x, given.values[1]) : Tensor();
  if (!y.defined()) return nullptr;
  return result(without_gil(work_of(x, y), [&] { return ops::compare(op, x, y); }));
}

template <Unary op> Tensor of_one(const Tensor& x) { return ops::unary(op, x); }

Tensor square(const Tensor& x) { return ops::multiply(x, x); }
Tensor reciprocal_root(const Tensor& x) { return reciprocal(ops::unary(Unary::square_root, x)); }
template <int base> Tensor logarithm(const Tensor& x) {
  return ops::divide(ops::unary(Unary::logarithm, x),
                     ops::scalar_like(x, base == 2 ? std::numbers::ln2 : std::numbers::ln10));
}
Tensor gelu(const Tensor& x) { return ops::gelu(x, false); }
// In place it is left to Python.
Tensor silu(const Tensor& x, bool in_place) { return in_place ? Tensor() : ops::silu(x); }
Tensor leaky_relu(const Tensor& x, std::optional<double> slope, bool in_place) {
  return in_place ? Tensor() : ops::leaky_relu(x, slope.value_or(0.01));
}

// A new Tensor of these sizes.
template <int value> PyObject* filled(const Given& given, const Entry&) {
  IndexList sizes;
  if (given.count == 0 || given.names != nullptr || !read_numbers(given, 0, sizes)) return nullptr;
  double numbers = 1;
  for (const Index size : sizes) {
    if (size < 0) return nullptr;
    numbers *= static_cast<double>(size);
  }
  return result(without_gil(static_cast<Index>(std::min(numbers, 1e18)), [&] {
    return Tensor(Array::full(Shape(sizes.begin(), sizes.end()), default_dtype(), value));
  }));
}

PyObject* clone(const Given& given, const Entry& entry) {
  const Tensor x = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined()) return nullptr;
  return view_of(given.values[0], without_gil(x.numel(), [&] { return ops::copy(x); }), entry.label);
}

PyObject* product(const Given& given, const Entry&) {
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

// Of two Tensors with so many axes, of equal batches.
template <Index first, Index second> PyObject* product_of(const Given& given, const Entry& entry) {
  if (!given.by_position(2)) return nullptr;
  const Tensor x = floating_of(given.values[0]), y = tensor_of(given.values[1]);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype() || x.rank() != first || y.rank() != second ||
      (first == 3 && x.dim(0) != y.dim(0)))
    return nullptr;
  return result(without_gil([&] { return ops::matmul(x, y); }), entry.label);
}

// (x, weight, bias=None) of matrices, of one dtype.
PyObject* linear(const Given& given, const Entry&) {
  if (given.names != nullptr || given.count < 2 || given.count > 3) return nullptr;
  const Tensor x = floating_of(given.values[0]), weight = tensor_of(given.values[1]);
  const bool plain = given.count == 2 || given.values[2] == Py_None;
  const Tensor bias = plain ? Tensor() : tensor_of(given.values[2]);
  if (!x.defined() || !weight.defined() || x.rank() < 2 || weight.rank() != 2 || x.dtype() != weight.dtype() ||
      (!plain && (!bias.defined() || bias.dtype() != x.dtype())))
    return nullptr;
  const char* label =
      x.rank() > 2 ? (plain ? "UnsafeViewBackward0" : "ViewBackward0") : (plain ? "MmBackward0" : "AddmmBackward0");
  return result(without_gil([&] { return ops::linear(x, weight, bias); }), label);
}

// Where a condition holds the numbers of one, else those of the other, of which one may be a number.
PyObject* where_of(PyObject* mask, PyObject* a, PyObject* b, const char* label) {
  const Tensor condition = tensor_of(mask);
  if (!condition.defined() || condition.dtype() != DType::boolean) return nullptr;
  Tensor x = floating_of(a), y = floating_of(b);
  if (!x.defined() && y.defined()) x = partner(y, a);
  if (!y.defined() && x.defined()) y = partner(x, b);
  if (!x.defined() || !y.defined() || x.dtype() != y.dtype()) return nullptr;
  return result(without_gil(work_of(x, y), [&] { return ops::where(condition, x, y); }), label);
}

PyObject* chosen(const Given& given, const Entry& entry) {
  if (!given.by_position(3)) return nullptr;
  return where_of(given.values[0], given.values[1], given.values[2], entry.label);
}

PyObject* mask_filled(const Given& given, const Entry& entry) {
  double number = 0;
  if (!given.by_position(3) || !read(given.values[2], number)) return nullptr;
  return where_of(given.values[1], given.values[2], given.values[0], entry.label);
}

// Bounds in another order, or none, are left to Python.
Tensor clamped(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  if ((!low && !high) || (low && high && !(*low <= *high))) throw std::invalid_argument("clamp");
  return ops::clip(x, low, high);
}

}  // namespace

std::span<const Entry> number_entries() {
  static constexpr Entry all[] = {
      {"add __add__", arithmetic<Binary::add>, "AddBackward0"},
      {"__radd__", arithmetic<Binary::add, true>, "AddBackward0"},
      {"sub __sub__", arithmetic<Binary::subtract>, "SubBackward0"},
      {"__rsub__", arithmetic<Binary::subtract, true>, "RsubBackward1"},
      {"mul __mul__", arithmetic<Binary::multiply>, "MulBackward0"},
      {"__rmul__", arithmetic<Binary::multiply, true>, "MulBackward0"},
      {"div __truediv__", arithmetic<Binary::divide>, "DivBackward0"},
      {"pow __pow__", arithmetic<Binary::power>, "PowBackward0", "PowBackward1"},
      {"__rpow__", arithmetic<Binary::power, true>, "PowBackward2", "PowBackward1"},
      {"__rtruediv__", number_over, "MulBackward0"},
      {"remainder __mod__", arithmetic<Binary::remainder>, "RemainderBackward0"},
      {"maximum", arithmetic<Binary::maximum>, "MaximumBackward0"},
      {"minimum", arithmetic<Binary::minimum>, "MinimumBackward0"},
      {"bitwise_and __and__ __rand__", both<ops::Bitwise::bit_and>},
      {"bitwise_or __or__ __ror__", both<ops::Bitwise::bit_or>},
      {"bitwise_xor __xor__ __rxor__", both<ops::Bitwise::bit_xor>},
      {"bitwise_not", turned_round},
      {"add_ __iadd__", changed<Binary::add>},
      {"sub_ __isub__", changed<Binary::subtract>},
      {"mul_ __imul__", changed<Binary::multiply>},
      {"div_ __itruediv__", changed<Binary::divide>},
      {"eq __eq__", comparison<Compare::equal>},
      {"ne __ne__", comparison<Compare::not_equal>},
      {"lt __lt__", comparison<Compare::less>},
      {"le __le__", comparison<Compare::less_equal>},
      {"gt __gt__", comparison<Compare::greater>},
      {"ge __ge__", comparison<Compare::greater_equal>},
      {"exp", computed<of_one<Unary::exponential>>, "ExpBackward0"},
      {"log", computed<of_one<Unary::logarithm>>, "LogBackward0"},
      {"log2", computed<logarithm<2>>, "Log2Backward0"},
      {"log10", computed<logarithm<10>>, "Log10Backward0"},
      {"square", computed<square>, "PowBackward0"},
      {"reciprocal", computed<reciprocal>, "ReciprocalBackward0"},
      {"rsqrt", computed<reciprocal_root>, "RsqrtBackward0"},
      {"gelu", computed<gelu>, "GeluBackward0"},
      {"silu", computed<silu, bool>, "SiluBackward0", nullptr, {{{"inplace"}}}},
      {"leaky_relu",
       computed<leaky_relu, std::optional<double>, bool>,
       "LeakyReluBackward0",
       nullptr,
       {{{"negative_slope"}, {"inplace"}}}},
      {"exp2", computed<ops::exp2>, "Exp2Backward0"},
      {"sqrt", computed<of_one<Unary::square_root>>, "SqrtBackward0"},
      {"sin", computed<of_one<Unary::sine>>, "SinBackward0"},
      {"cos", computed<of_one<Unary::cosine>>, "CosBackward0"},
      {"erf", computed<of_one<Unary::error_function>>, "ErfBackward0"},
      {"neg", computed<of_one<Unary::negate>>, "NegBackward0"},
      {"abs", computed<of_one<Unary::absolute>>, "AbsBackward0"},
      {"tanh", computed<ops::tanh>, "TanhBackward0"},
      {"sigmoid", computed<ops::sigmoid>, "SigmoidBackward0"},
      {"relu", computed<ops::relu>, "ReluBackward0"},
      {"clone", clone, "CloneBackward0"},
      {"matmul __matmul__", product},
      {"mm", product_of<2, 2>, "MmBackward0"},
      {"bmm", product_of<3, 3>, "BmmBackward0"},
      {"mv", product_of<2, 1>, "MvBackward0"},
      {"dot", product_of<1, 1>, "DotBackward0"},
      {"linear", linear},
      {"zeros", filled<0>},
      {"ones", filled<1>},
      {"where", chosen, "WhereBackward0"},
      {"masked_fill", mask_filled, "MaskedFillBackward0"},
      {"clamp clip",
       computed<clamped, std::optional<double>, std::optional<double>>,
       "ClampBackward1",
       nullptr,
       {{{"min"}, {"max"}}}},
  };
  return all;
}

}  // namespace qkv::bindings::direct
