// Operators of Python's class Tensor.
#include <limits>
#include <stdexcept>

#include "bindings/call/interpreter.h"
#include "bindings/tensor/tensor_class.h"
#include "bindings/values/operation.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using ops::Binary;
using ops::Bitwise;
using ops::Compare;
using ops::Unary;

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

// The other operand of a comparison: with numbers that float32 or int64 would change beside integers.
std::optional<Tensor> compared_operand(const Tensor& t, py::handle other) {
  int beyond = 0;
  if (is_floating(t.dtype())) return operand("compare", t, other);
  if (PyLong_Check(other.ptr()) != 0) PyLong_AsLongLongAndOverflow(other.ptr(), &beyond);
  if (beyond == 0 && PyFloat_Check(other.ptr()) == 0) return operand("compare", t, other);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return Tensor(Array::full({}, DType::float64, beyond == 0 ? PyFloat_AS_DOUBLE(other.ptr()) : beyond * kInfinity));
}

// The other operand of & | ^, where True and False stay booleans.
std::optional<Tensor> bits_operand(const Tensor& self, py::handle other) {
  if (PyBool_Check(other.ptr()) != 0) return Tensor(Array::full({}, DType::boolean, other.ptr() == Py_True));
  return operand("bitwise", self, other);
}

// By NumPy's name, for `array + tensor` and np.add(tensor, array), and what is in the names of methods: "add" in
// __add__, __radd__ and __iadd__. NumPy's other functions are Python's.
struct Operator {
  using Compute = Tensor (*)(const Tensor&, const Tensor&);
  const char *ufunc, *name;
  std::optional<Tensor> (*operand)(const Tensor&, py::handle);
  Compute compute, rest = nullptr;  // what follows in a pair
  bool swaps = true, changes = true;
};
template <auto op> Tensor computed(const Tensor& a, const Tensor& b) {
  if constexpr (std::is_same_v<decltype(op), Binary>) return ops::binary(op, a, b);
  else if constexpr (std::is_same_v<decltype(op), Bitwise>) return ops::bitwise(op, a, b);
  else return ops::compare(op, a, b);
}
template <Binary op> std::optional<Tensor> operand_of(const Tensor& t, py::handle other) {
  return operand(ops::name_of(op), t, other);
}
template <Compare op> constexpr Operator comparison(const char* ufunc, const char* name) {
  return {ufunc, name, compared_operand, computed<op>, nullptr, false, false};
}

constexpr Operator kOperators[] = {
    {"add", "add", operand_of<Binary::add>, computed<Binary::add>},
    {"subtract", "sub", operand_of<Binary::subtract>, computed<Binary::subtract>},
    {"multiply", "mul", operand_of<Binary::multiply>, computed<Binary::multiply>},
    {"divide", "truediv", operand_of<Binary::divide>, computed<Binary::divide>},
    {"power", "pow", operand_of<Binary::power>, computed<Binary::power>},
    {"floor_divide", "floordiv", operand_of<Binary::floor_divide>, computed<Binary::floor_divide>},
    {"remainder", "mod", operand_of<Binary::remainder>, computed<Binary::remainder>},
    {"divmod", "divmod", operand_of<Binary::floor_divide>, computed<Binary::floor_divide>, computed<Binary::remainder>,
     true, false},
    {"bitwise_and", "and", bits_operand, computed<Bitwise::bit_and>},
    {"bitwise_or", "or", bits_operand, computed<Bitwise::bit_or>},
    {"bitwise_xor", "xor", bits_operand, computed<Bitwise::bit_xor>},
    {"matmul", "matmul", [](const Tensor& t, py::handle other) { return operand("matmul", t, other); }, ops::matmul,
     nullptr, true, false},
    comparison<Compare::equal>("equal", "eq"),
    comparison<Compare::not_equal>("not_equal", "ne"),
    comparison<Compare::less>("less", "lt"),
    comparison<Compare::less_equal>("less_equal", "le"),
    comparison<Compare::greater>("greater", "gt"),
    comparison<Compare::greater_equal>("greater_equal", "ge"),
};

// t op other, or other op t.
template <bool swapped> py::object try_call(const Operator& o, const Tensor& t, py::handle other) {
  const std::optional<Tensor> found = o.operand(t, other);
  if (!found) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  const Tensor &a = swapped ? *found : t, &b = swapped ? t : *found;
  const auto run = [&](Operator::Compute f) { return py::cast(without_gil(work_of(a, b), [&] { return f(a, b); })); };
  return o.rest == nullptr ? run(o.compute) : py::make_tuple(run(o.compute), run(o.rest));
}

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

py::object operator_call(py::handle ufunc, py::handle a, py::handle b) {
  const Operator* found = operator_of(ufunc);
  if (found == nullptr || !(is_tensor(a) || is_tensor(b))) return {};
  return is_tensor(a) ? try_call<false>(*found, a.cast<Tensor>(), b) : try_call<true>(*found, b.cast<Tensor>(), a);
}

std::optional<Tensor> operand(const char* operation, const Tensor& self, py::handle other) {
  if (is_tensor(other)) return other.cast<Tensor>();
  PyObject* p = other.ptr();
  if (PyLong_Check(p) != 0 && !is_floating(self.dtype())) {
    const auto number = whole_number(other);
    if (!number) fail_overflow(operation, "int64", other);
    return Tensor(Array::full({}, DType::int64, *number));
  }
  if (PyFloat_Check(p) != 0 || PyLong_Check(p) != 0) return ops::scalar_like(self, double_from(operation, other));
  if (py::isinstance<py::str>(other) || other.is_none() || py::isinstance<py::dict>(other)) return {};
  Call call(operation);
  return call.any(other, "other");
}

void def_operators(TensorClass& tensor) {
  for (const Operator& o : kOperators) {
    tensor.def(text("__", o.name, "__"),
               [&o](const Tensor& t, py::handle other) { return try_call<false>(o, t, other); });
    if (o.swaps)
      tensor.def(text("__r", o.name, "__"),
                 [&o](const Tensor& t, py::handle other) { return try_call<true>(o, t, other); });
    if (o.changes)
      tensor.def(text("__i", o.name, "__"), [&o](const py::object& self, py::handle other) {
        return updated(o.ufunc, self, o.operand(self.cast<Tensor>(), other), o.compute);
      });
  }
  op<Self>(tensor, "__invert__", ops::invert);
  op(tensor, "__neg__", [](Self t) { return ops::unary(Unary::negate, t); });
  op<Self>(tensor, "__pos__", ops::copy);
  op(tensor, "__abs__", [](Self t) { return ops::unary(Unary::absolute, t); });
  // What np.ma's operators ask of the other operand before they convert it, which would lose the gradient.
  tensor.def_property("_data", [](const Tensor& t) -> py::object {
    if (grad_enabled() && t.requires_grad())
      fail_type(
          "numpy.ma: the gradient would be lost because a masked array keeps none; fill() the array, or detach() "
          "the Tensor");
    throw py::attribute_error("_data");
  });
  tensor.attr("__pandas_priority__") = 5000;  // above a DataFrame's, so that `series + tensor` asks the Tensor
}

}  // namespace qkv::bindings
