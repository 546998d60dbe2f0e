// What the core answers itself of the class derived from Tensor: arithmetic of two operands, in the dtype that they
// have together, and what gives or changes the numbers of one in its own.
#include <algorithm>
#include <array>

#include "autograd/in_place.h"
#include "bindings/direct_call.h"
#include "bindings/promotion.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using ops::Binary;
using ops::Compare;
using ops::Unary;

// What of numbers has no derivative: an error where one is asked for.
Tensor without_derivative(const Tensor& numbers, const Tensors& operands) {
  if (!wants_gradient(operands)) return numbers;
  return record(Array(numbers.data()), operands, [](const Tensor&, TensorGradients&) {
    fail_runtime("backward: floor_divide has no derivative; detach() its operands, or its result");
  });
}

bool has_zero(const Tensor& t) {
  const Array numbers = packed(ops::cast(t, DType::int64).data());
  const auto* first = numbers.data<std::int64_t>();
  return std::find(first, first + numbers.numel(), 0) != first + numbers.numel();
}

}  // namespace

Operand compute(Binary op, const Operand& a, const Operand& b) {
  const Kind* kind = &result_kind(std::array{a, b});
  if (op == Binary::divide && kind->height < 2) kind = &default_kind();
  if (op == Binary::subtract && (a.kind->height == 0 || b.kind->height == 0))
    fail_runtime("sub: operands must not be booleans because these have no differences; use ^ or ~");
  const Tensor x = a.in(*kind), y = b.in(*kind);
  const bool rounded = op == Binary::floor_divide || op == Binary::remainder || op == Binary::fmod;
  if (rounded && kind->height < 2 && has_zero(y))
    fail_runtime(ops::name_of(op), ": other must not be 0 because integers have no infinity");
  const bool root = op == Binary::power && a.tensor.defined() && is_floating(a.tensor.dtype()) && b.value != nullptr &&
                    PyFloat_CheckExact(b.value) != 0 && PyFloat_AS_DOUBLE(b.value) == 0.5;
  const Tensor computed = cut(
      without_gil(work_of(x, y),
                  [&] {
                    if (root) return ops::unary(Unary::square_root, x);
                    if (op == Binary::floor_divide)
                      return without_derivative(ops::cast(ops::binary(op, x.detach(), y.detach()), kind->core), {x, y});
                    if (kind->height > 0) return ops::binary(op, x, y);
                    if (op == Binary::add || op == Binary::maximum) return ops::bitwise(ops::Bitwise::bit_or, x, y);
                    if (op == Binary::multiply || op == Binary::minimum)
                      return ops::bitwise(ops::Bitwise::bit_and, x, y);
                    const Tensor numbers = ops::binary(op, x, y);
                    return rounded ? ops::cast(numbers, DType::boolean) : numbers;
                  }),
      *kind);
  if (kind->height == 0) kind = &kind_of(computed.dtype());  // of powers of booleans
  return {nullptr, computed, kind};
}

namespace {

// The other operand times `alpha`, where the operation has that.
std::optional<Operand> scaled(const Given& given, const Operand& x, const Operand& y, PyObject* alpha) {
  if (alpha == nullptr) return y;
  double factor = 1;
  if (given.entry.parameters[1].name.empty() || !read(alpha, factor) || !y.tensor.defined()) return {};
  if (PyFloat_Check(alpha) != 0 && result_kind(std::array{x, y}).height < 2) return {};
  return factor == 1 ? y : compute(Binary::multiply, y, operand_of(alpha));
}

// With a label of its own beside a Tensor, or in front of one, if there is one.
template <Binary op, bool swapped = false>
PyObject* arithmetic(const Given& given, const Operand& x, const Operand& other, PyObject* alpha) {
  const auto factor = scaled(given, x, other, alpha);
  if (!factor) return nullptr;
  const Operand& y = *factor;
  const Entry& entry = given.entry;
  const Operand z = swapped ? compute(op, y, x) : compute(op, x, y);
  const bool number = !(swapped ? x : y).tensor.defined();
  const char* label = number || entry.other_label == nullptr ? entry.label : entry.other_label;
  if (op == Binary::power && !(swapped ? y : x).tensor.defined()) label = "PowBackward2";
  return result(z.tensor, label, *z.kind);
}

// A number over a Tensor: PyTorch multiplies by the reciprocal.
PyObject* number_over(const Given& given, const Operand& operand, const Operand& number) {
  if (number.tensor.defined()) {
    const Operand quotient = compute(Binary::divide, number, operand);
    return result(quotient.tensor, "DivBackward0", *quotient.kind);
  }
  const Kind& kind = operand.kind->height < 2 ? default_kind() : *operand.kind;
  const Tensor x = operand.in(kind), factor = number.in(kind);
  return result(without_gil(x.numel(),
                            [&] {
                              const Tensor inverse = ops::divide(ops::scalar_like(x, 1), x);
                              if (double one = 0; read(number.value, one) && one == 1) return inverse;
                              set_label(inverse, "ReciprocalBackward0");
                              return ops::multiply(inverse, factor);
                            }),
                given.entry.label);
}

// Of booleans, or bit by bit of integers.
template <class Compute> PyObject* bits(std::span<const Operand> operands, const char* name, Compute compute) {
  const Kind& kind = result_kind(operands);
  if (kind.height == 2) fail_type(name, ": input must hold booleans or integers; got ", kind.text());
  return result(compute(operands.front().in(kind), operands.back().in(kind)), nullptr, kind);
}

template <ops::Bitwise op> PyObject* both(const Given&, const Operand& a, const Operand& b) {
  return bits(std::array{a, b}, ops::name_of(op), [](const Tensor& x, const Tensor& y) {
    return without_gil(work_of(x, y), [&] { return ops::bitwise(op, x, y); });
  });
}

PyObject* turned_round(const Given&, const Operand& operand) {
  return bits({&operand, 1}, "bitwise_not",
              [](const Tensor& x, const Tensor&) { return without_gil(x.numel(), [&] { return ops::invert(x); }); });
}

// In place: the dtype stays.
template <Binary op> PyObject* changed(const Given& given, const Typed& own, const Operand& other, PyObject* alpha) {
  const auto factor = scaled(given, own, other, alpha);
  if (!factor) return nullptr;
  const Tensor& x = own.tensor;
  const bool number = !factor->tensor.defined();
  check_changeable("in place", x);
  const auto before = [&](Operand one) {
    if (one.tensor.defined() && grad_enabled()) one.tensor = before_change(x, one.tensor);
    return one;
  };
  const Operand y = compute(op, before(own), before(*factor));
  if (y.tensor.shape() != x.shape() || y.kind->height > own.kind->height) return nullptr;
  set_in_place("in place", x, y.in(*own.kind));
  const Entry& entry = given.entry;
  if (y.tensor.requires_grad()) set_label(x, number || entry.other_label == nullptr ? entry.label : entry.other_label);
  return Py_NewRef(own.value);
}

template <Compare op> PyObject* comparison(const Given&, const Typed& x, py::handle other) {
  if (!is_tensor(other)) {
    const auto found = compared(op, x.tensor, other);
    return found ? result(*found) : nullptr;
  }
  const std::array<Operand, 2> both{x, operand_of(other.ptr())};
  const Kind& kind = result_kind(both);
  const Tensor a = both[0].in(kind), b = both[1].in(kind);
  return result(without_gil(work_of(a, b), [&] { return ops::compare(op, a, b); }));
}

// Where a condition holds the numbers of one, else those of the other.
PyObject* chosen(const Given& given, const Tensor& condition, const Operand& x, const Operand& y) {
  if (condition.dtype() != DType::boolean) return nullptr;
  const Kind& kind = result_kind(std::array{x, y});
  const Tensor a = x.in(kind), b = y.in(kind);
  return result(without_gil(work_of(a, b), [&] { return ops::where(condition, a, b); }), given.entry.label, kind);
}

PyObject* mask_filled(const Given& given, const Typed& own, const Tensor& mask, Operand value) {
  if (mask.dtype() != DType::boolean || (value.tensor.defined() && value.tensor.rank() > 0)) return nullptr;
  if (value.tensor.defined()) value.tensor = value.tensor.detach();
  const Tensor &x = own.tensor, y = value.in(*own.kind);
  return result(without_gil(work_of(x, mask), [&] { return ops::where(mask, y, x); }), given.entry.label, *own.kind);
}

// A copy of an array, a number or a Tensor; of lists in Python.
PyObject* made(const Given& given, py::handle data, PyObject* dtype, bool recorded) {
  if (given.count != 1 || PyList_Check(data.ptr()) != 0 || PyTuple_Check(data.ptr()) != 0) return nullptr;
  const Operand operand = operand_of(data.ptr());
  const Kind* kind = dtype == nullptr || dtype == Py_None ? operand.kind : computed_kind(dtype);
  if (kind == nullptr || (recorded && kind->height < 2)) return nullptr;
  const Tensor t = operand.in(*kind);
  const Tensor own =
      t.defined() && t.impl() == operand.tensor.impl() && is_tensor(data) ? Tensor(cloned(t.data())) : t.detach();
  own.impl()->requires_grad = recorded;
  return result(own, nullptr, *kind);
}

// In the memory of the array, where that can be.
PyObject* shared(const Given&, py::handle value) {
  if (!py::isinstance<py::array>(value)) fail_type("from_numpy: expected an np.ndarray; got ", described(value));
  const auto array = py::reinterpret_borrow<py::array>(value);
  if (std::any_of(array.strides(), array.strides() + array.ndim(), [](py::ssize_t step) { return step < 0; }))
    fail_value("from_numpy: strides must not be negative, as in PyTorch; copy the array first");
  if (auto numbers = shared_with(array)) return result(Tensor(*std::move(numbers)));
  const Operand copy = operand_of(value.ptr());
  return result(copy.tensor, nullptr, *copy.kind);
}

// One number everywhere, also where several places are one in memory.
PyObject* filled_with(const Given& given, const Typed& own, const Tensor& value) {
  const Tensor& t = own.tensor;
  const char* operation = given.entry.names;
  check_changeable(operation, t);
  if (wants_gradient({t, value})) {
    set_in_place(operation, t, replacement(t, value));
    set_label(t, given.entry.label);
  } else {
    write(t.data(), ops::broadcast_to(value, t.shape()).data());
  }
  return Py_NewRef(own.value);
}

PyObject* fill(const Given& given, const Typed& own, const Operand& value) {
  return filled_with(given, own, value.in(*own.kind));
}

PyObject* zero(const Given& given, const Typed& own) {
  return filled_with(given, own, Tensor(Array::full({}, own.tensor.dtype(), 0)));
}

PyObject* overwritten(const Given& given, const Typed& own, const Operand& value, PyObject*) {
  const Tensor& t = own.tensor;
  check_changeable("copy_", t);
  const Tensor source = before_change(t, value.in(*own.kind));
  const Tensor y = without_gil(t.numel(), [&] { return replacement(before_change(t, t), source); });
  set_in_place("copy_", t, y);
  if (y.requires_grad()) set_label(t, given.entry.label);
  return Py_NewRef(own.value);
}

// In a dtype, or on the CPU; itself if it is that.
PyObject* moved(const Given& given, const Typed& own, py::handle wanted) {
  const bool stays = PyUnicode_Check(wanted.ptr()) != 0 && PyUnicode_CompareWithASCIIString(wanted.ptr(), "cpu") == 0;
  const Kind* kind = stays ? own.kind : computed_kind(wanted.ptr());
  if (kind == nullptr) return nullptr;
  if (kind == own.kind) return Py_NewRef(own.value);
  return result(without_gil(own.tensor.numel(), [&] { return own.in(*kind); }), given.entry.label, *kind);
}

PyObject* dtype(const Given& given, const Tensor& t) { return Py_NewRef(kind_of(given.values[0], t).object); }

}  // namespace

std::span<const Entry> arithmetic_entries() {
  static constexpr Entry all[] = {
      {"add __add__", "other, alpha", call<arithmetic<Binary::add>>, "AddBackward0"},
      {"__radd__", call<arithmetic<Binary::add, true>>, "AddBackward0"},
      {"sub subtract __sub__", "other, alpha", call<arithmetic<Binary::subtract>>, "SubBackward0"},
      {"rsub __rsub__", call<arithmetic<Binary::subtract, true>>, "RsubBackward1"},
      {"mul multiply __mul__", call<arithmetic<Binary::multiply>>, "MulBackward0"},
      {"__rmul__", call<arithmetic<Binary::multiply, true>>, "MulBackward0"},
      {"div divide true_divide __truediv__", call<arithmetic<Binary::divide>>, "DivBackward0"},
      {"pow __pow__", call<arithmetic<Binary::power>>, "PowBackward0", "PowBackward1"},
      {"__rpow__", call<arithmetic<Binary::power, true>>, "PowBackward0", "PowBackward1"},
      {"__rtruediv__", call<number_over>, "MulBackward0"},
      {"floor_divide __floordiv__", call<arithmetic<Binary::floor_divide>>, "NotImplemented"},
      {"__rfloordiv__", call<arithmetic<Binary::floor_divide, true>>, "NotImplemented"},
      {"remainder __mod__", call<arithmetic<Binary::remainder>>, "RemainderBackward0"},
      {"__rmod__", call<arithmetic<Binary::remainder, true>>, "RemainderBackward0"},
      {"fmod", call<arithmetic<Binary::fmod>>, "FmodBackward0"},
      {"maximum", call<arithmetic<Binary::maximum>>, "MaximumBackward0"},
      {"minimum", call<arithmetic<Binary::minimum>>, "MinimumBackward0"},
      {"bitwise_and __and__ __rand__", call<both<ops::Bitwise::bit_and>>},
      {"bitwise_or __or__ __ror__", call<both<ops::Bitwise::bit_or>>},
      {"bitwise_xor __xor__ __rxor__", call<both<ops::Bitwise::bit_xor>>},
      {"bitwise_not __invert__", call<turned_round>},
      {"add_ __iadd__", "other, alpha", call<changed<Binary::add>>, "AddBackward0"},
      {"sub_ __isub__", "other, alpha", call<changed<Binary::subtract>>, "SubBackward0"},
      {"mul_ __imul__", call<changed<Binary::multiply>>, "MulBackward0"},
      {"div_ __itruediv__", call<changed<Binary::divide>>, "DivBackward0"},
      {"pow_ __ipow__", call<changed<Binary::power>>, "PowBackward0", "PowBackward1"},
      {"remainder_ __imod__", call<changed<Binary::remainder>>, "RemainderBackward0"},
      {"floor_divide_ __ifloordiv__", call<changed<Binary::floor_divide>>, "NotImplemented"},
      {"eq __eq__", call<comparison<Compare::equal>>},
      {"ne __ne__", call<comparison<Compare::not_equal>>},
      {"lt __lt__", call<comparison<Compare::less>>},
      {"le __le__", call<comparison<Compare::less_equal>>},
      {"gt __gt__", call<comparison<Compare::greater>>},
      {"ge __ge__", call<comparison<Compare::greater_equal>>},
      {"where", call<chosen>, "WhereBackward0"},
      {"masked_fill", call<mask_filled>, "MaskedFillBackward0"},
      {"tensor", "dtype, requires_grad", call<made>},
      {"from_numpy", call<shared>},
      {"to", "dtype|device", call<moved>, "ToCopyBackward0"},
      {"dtype", call<dtype>},
      {"fill_", call<fill>, "FillBackward0"},
      {"zero_", call<zero>, "ZeroBackward0"},
      {"copy_", call<overwritten>, "CopyBackwards"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
