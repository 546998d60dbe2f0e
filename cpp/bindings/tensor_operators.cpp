// Operators of Python's class Tensor.
#include <stdexcept>

#include "bindings/call_python.h"
#include "bindings/operation.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using ops::Binary;
using ops::Bitwise;
using ops::Compare;
using ops::Unary;
using Impl = std::shared_ptr<TensorImpl>;

py::object not_implemented() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

[[noreturn]] void fail_overflow(const char* operation, const char* dtype, py::handle number) {
  const std::string bits = py::str(number.attr("bit_length")());  // its digits may be too many to print
  throw std::overflow_error(
      text(operation, ": other must fit in ", dtype, " because the Tensor does; got an int of ", bits, " bits"));
}

double double_from(const char* operation, py::handle number) {
  const double value = PyFloat_AsDouble(number.ptr());
  if (value != -1 || PyErr_Occurred() == nullptr) return value;
  if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
  PyErr_Clear();
  fail_overflow(operation, "float64", number);
}

template <Binary op, bool swapped> py::object arithmetic(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = operand(ops::name_of(op), t, other);
  if (!o) return not_implemented();
  return py::cast(
      without_gil(work_of(t, *o), [&] { return swapped ? ops::binary(op, *o, t) : ops::binary(op, t, *o); }));
}

template <bool swapped> py::object quotient_and_rest(const Impl& self, py::handle other) {
  const py::object quotient = arithmetic<Binary::floor_divide, swapped>(self, other);
  if (quotient.ptr() == Py_NotImplemented) return quotient;
  return py::make_tuple(quotient, arithmetic<Binary::remainder, swapped>(self, other));
}

// The order of the operands does not matter.
template <Bitwise op> py::object bits(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = bits_operand(t, other);
  if (!o) return not_implemented();
  return py::cast(without_gil(work_of(t, *o), [&] { return ops::bitwise(op, t, *o); }));
}

// An int beyond int64 is larger or smaller than every number of the Tensor.
Tensor beyond(Compare op, const Tensor& t, bool larger) {
  const bool less = op == Compare::less || op == Compare::less_equal;
  const bool greater = op == Compare::greater || op == Compare::greater_equal;
  const bool holds = op == Compare::not_equal || (larger ? less : greater);
  return Tensor(Array::full(t.shape(), DType::boolean, holds));
}

template <Compare op> py::object comparison(const Impl& self, py::handle other) {
  const auto found = compared(op, Tensor(self), other);
  return found ? py::cast(*found) : not_implemented();
}

template <bool swapped> py::object product(const Impl& self, py::handle other) {
  const Tensor t(self);
  const auto o = operand("matmul", t, other);
  if (!o) return not_implemented();
  return py::cast(without_gil([&] { return swapped ? ops::matmul(*o, t) : ops::matmul(t, *o); }));
}

// By NumPy's name, for `array + tensor` and np.add(tensor, array), and by those of the methods. NumPy's other functions
// are answered in Python.
struct Operator {
  const char *ufunc, *method, *swapped_method;
  py::object (*left)(const Impl&, py::handle);
  py::object (*right)(const Impl&, py::handle);
};
template <Binary op>
constexpr Operator arithmetic_operator(const char* ufunc, const char* method, const char* swapped_method) {
  return {ufunc, method, swapped_method, arithmetic<op, false>, arithmetic<op, true>};
}
constexpr Operator kOperators[] = {
    arithmetic_operator<Binary::add>("add", "__add__", "__radd__"),
    arithmetic_operator<Binary::subtract>("subtract", "__sub__", "__rsub__"),
    arithmetic_operator<Binary::multiply>("multiply", "__mul__", "__rmul__"),
    arithmetic_operator<Binary::divide>("true_divide", "__truediv__", "__rtruediv__"),
    arithmetic_operator<Binary::power>("power", "__pow__", "__rpow__"),
    arithmetic_operator<Binary::floor_divide>("floor_divide", "__floordiv__", "__rfloordiv__"),
    arithmetic_operator<Binary::remainder>("remainder", "__mod__", "__rmod__"),
    {"divmod", "__divmod__", "__rdivmod__", quotient_and_rest<false>, quotient_and_rest<true>},
    {"bitwise_and", "__and__", "__rand__", bits<Bitwise::bit_and>, bits<Bitwise::bit_and>},
    {"bitwise_or", "__or__", "__ror__", bits<Bitwise::bit_or>, bits<Bitwise::bit_or>},
    {"bitwise_xor", "__xor__", "__rxor__", bits<Bitwise::bit_xor>, bits<Bitwise::bit_xor>},
    {"matmul", "__matmul__", "__rmatmul__", product<false>, product<true>},
    {"equal", "__eq__", nullptr, comparison<Compare::equal>, comparison<Compare::equal>},
    {"not_equal", "__ne__", nullptr, comparison<Compare::not_equal>, comparison<Compare::not_equal>},
    {"less", "__lt__", nullptr, comparison<Compare::less>, comparison<Compare::greater>},
    {"less_equal", "__le__", nullptr, comparison<Compare::less_equal>, comparison<Compare::greater_equal>},
    {"greater", "__gt__", nullptr, comparison<Compare::greater>, comparison<Compare::less>},
    {"greater_equal", "__ge__", nullptr, comparison<Compare::greater_equal>, comparison<Compare::less_equal>},
};

const Operator* operator_of(py::handle ufunc) {
  static const auto* known = [] {
    auto* ufuncs = new std::vector<py::object>;  // never let go: the interpreter may be gone by then
    for (const Operator& o : kOperators) ufuncs->push_back(numpy().attr(o.ufunc));
    return ufuncs;
  }();
  for (std::size_t i = 0; i < known->size(); ++i)
    if ((*known)[i].is(ufunc)) return &kOperators[i];
  return nullptr;
}

}  // namespace

std::optional<Tensor> compared(Compare op, const Tensor& t, py::handle other) {
  std::optional<Tensor> o;
  if (!is_floating(t.dtype()) && PyLong_Check(other.ptr()) != 0) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(other.ptr(), &overflow);
    if (overflow != 0) return beyond(op, t, overflow > 0);
    o = Tensor(Array::full({}, DType::int64, value));
  } else if (!is_floating(t.dtype()) && PyFloat_Check(other.ptr()) != 0) {
    o = Tensor(Array::full({}, DType::float64, PyFloat_AS_DOUBLE(other.ptr())));  // float32 would round it
  } else {
    o = operand("compare", t, other);
  }
  if (!o) return {};
  return without_gil(work_of(t, *o), [&] { return ops::compare(op, t, *o); });
}

py::object operator_call(py::handle ufunc, py::handle a, py::handle b) {
  const Operator* found = operator_of(ufunc);
  if (found == nullptr || !(is_tensor(a) || is_tensor(b))) return {};
  return is_tensor(a) ? found->left(a.cast<Tensor>().impl(), b) : found->right(b.cast<Tensor>().impl(), a);
}

std::optional<Tensor> operand(const char* operation, const Tensor& self, py::handle other) {
  if (is_tensor(other)) return other.cast<Tensor>();
  PyObject* p = other.ptr();
  if (PyLong_Check(p) != 0 && !is_floating(self.dtype())) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(p, &overflow);
    if (overflow != 0) fail_overflow(operation, "int64", other);
    return Tensor(Array::full({}, DType::int64, value));
  }
  if (PyFloat_Check(p) != 0 || PyLong_Check(p) != 0) return ops::scalar_like(self, double_from(operation, other));
  if (py::isinstance<py::str>(other) || other.is_none() || py::isinstance<py::dict>(other)) return {};
  Call call(operation);
  return call.any(other, "other");
}

std::optional<Tensor> bits_operand(const Tensor& self, py::handle other) {
  if (PyBool_Check(other.ptr()) != 0) return Tensor(Array::full({}, DType::boolean, other.ptr() == Py_True));
  return operand("bitwise", self, other);
}

void def_operators(TensorClass& tensor) {
  for (const Operator& o : kOperators) {
    tensor.def(o.method, o.left);
    if (o.swapped_method != nullptr) tensor.def(o.swapped_method, o.right);
  }
  op<Self>(tensor, "__invert__", ops::invert);
  op<Self>(tensor, "__neg__", [](const Tensor& t) { return ops::unary(Unary::negate, t); });
  op<Self>(tensor, "__pos__", ops::copy);
  op<Self>(tensor, "__abs__", [](const Tensor& t) { return ops::unary(Unary::absolute, t); });
  // What np.ma's operators ask of the other operand before they convert it, which would lose the gradient.
  tensor.def_property("_data", [](const Impl& impl) -> py::object {
    if (grad_enabled() && Tensor(impl).requires_grad())
      fail_type(
          "numpy.ma: the gradient would be lost because a masked array keeps none; fill() the array, or detach() "
          "the Tensor");
    throw py::attribute_error("_data");
  });
  tensor.attr("__pandas_priority__") = 5000;  // above a DataFrame's, so that `series + tensor` asks the Tensor
}

}  // namespace qkv::bindings
