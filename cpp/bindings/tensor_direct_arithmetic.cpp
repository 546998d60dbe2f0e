// What the core answers itself of the class derived from Tensor: arithmetic of two operands, in the dtype that they
// have together, and what gives or changes the numbers of one in its own.
#include <algorithm>
#include <array>
#include <stdexcept>

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
    throw std::runtime_error("backward: floor_divide has no derivative; detach() its operands, or its result");
  });
}

bool has_zero(const Tensor& t) {
  const Array numbers = packed(ops::cast(t, DType::int64).data());
  const auto* first = numbers.data<std::int64_t>();
  return std::find(first, first + numbers.numel(), 0) != first + numbers.numel();
}

// a op b in the dtype that both have together, which `kind` becomes.
Tensor compute(Binary op, const Operand& a, const Operand& b, const Kind*& kind) {
  const std::array<Operand, 2> both{a, b};
  kind = &result_kind(both);
  if (op == Binary::divide && kind->height < 2) kind = &default_kind();
  if (op == Binary::subtract && (a.kind->height == 0 || b.kind->height == 0))
    throw std::runtime_error("sub: operands must not be booleans because these have no differences; use ^ or ~");
  const Tensor x = a.in(*kind), y = b.in(*kind);
  const bool rounded = op == Binary::floor_divide || op == Binary::remainder;
  if (rounded && kind->height < 2 && has_zero(y))
    throw std::runtime_error(text(ops::name_of(op), ": other must not be 0 because integers have no infinity"));
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
  return computed;
}

// Two operands, of which the other one may be a Tensor to multiply by `alpha`.
std::optional<std::array<Operand, 2>> operands_of(const Given& given, const Entry& entry) {
  std::array<PyObject*, 2> more{};
  const std::size_t known = entry.parameters[1].name == nullptr ? 1 : 2;
  if (given.count == 0 || !read_parameters(given, std::span(entry.parameters).first(known), more) || more[0] == nullptr)
    return {};
  Operand other = operand_of(more[0]);
  double alpha = 1;
  if (more[1] != nullptr && (!read(more[1], alpha) || !other.tensor.defined())) return {};
  std::array<Operand, 2> both{operand_of(given.values[0]), other};
  if (more[1] != nullptr && PyFloat_Check(more[1]) != 0 && result_kind(both).height < 2) return {};
  if (alpha != 1) {
    const Kind* kind = nullptr;
    const Tensor scaled = compute(Binary::multiply, other, operand_of(more[1]), kind);
    both[1] = {nullptr, scaled, kind};
  }
  return both;
}

// With a label of its own beside a Tensor, or in front of one, if there is one.
template <Binary op, bool swapped = false> PyObject* arithmetic(const Given& given, const Entry& entry) {
  const auto both = operands_of(given, entry);
  if (!both) return nullptr;
  const auto& [x, y] = *both;
  const Kind* kind = nullptr;
  const Tensor z = swapped ? compute(op, y, x, kind) : compute(op, x, y, kind);
  const bool number = !(swapped ? x : y).tensor.defined();
  const char* label = number || entry.other_label == nullptr ? entry.label : entry.other_label;
  if (op == Binary::power && !(swapped ? y : x).tensor.defined()) label = "PowBackward2";
  return result(z, label, *kind);
}

// A number over a Tensor: PyTorch multiplies by the reciprocal.
PyObject* number_over(const Given& given, const Entry& entry) {
  if (!given.by_position(2)) return nullptr;
  const Operand operand = operand_of(given.values[0]), number = operand_of(given.values[1]);
  if (number.tensor.defined()) {
    const Kind* kind = nullptr;
    const Tensor quotient = compute(Binary::divide, number, operand, kind);
    return result(quotient, "DivBackward0", *kind);
  }
  const Kind& kind = operand.kind->height < 2 ? default_kind() : *operand.kind;
  const Tensor x = operand.in(kind), factor = number.in(kind);
  return result(without_gil(x.numel(),
                            [&] {
                              const Tensor inverse = ops::divide(ops::scalar_like(x, 1), x);
                              set_label(inverse, "ReciprocalBackward0");
                              return ops::multiply(inverse, factor);
                            }),
                entry.label);
}

// Of booleans, or bit by bit of integers.
template <class Compute> PyObject* bits(std::span<const Operand> operands, const char* name, Compute compute) {
  const Kind& kind = result_kind(operands);
  if (kind.height == 2) fail_type(name, ": input must hold booleans or integers; got ", kind.text());
  return result(compute(operands.front().in(kind), operands.back().in(kind)), nullptr, kind);
}

template <ops::Bitwise op> PyObject* both(const Given& given, const Entry& entry) {
  const auto operands = operands_of(given, entry);
  return operands ? bits(*operands, ops::name_of(op),
                         [](const Tensor& x, const Tensor& y) {
                           return without_gil(work_of(x, y), [&] { return ops::bitwise(op, x, y); });
                         })
                  : nullptr;
}

PyObject* turned_round(const Given& given, const Entry&) {
  if (!given.by_position(1)) return nullptr;
  const Operand operand = operand_of(given.values[0]);
  return bits({&operand, 1}, "bitwise_not",
              [](const Tensor& x, const Tensor&) { return without_gil(x.numel(), [&] { return ops::invert(x); }); });
}

// In place: the dtype stays.
template <Binary op> PyObject* changed(const Given& given, const Entry& entry) {
  auto both = operands_of(given, entry);
  const Tensor x = both ? (*both)[0].tensor : Tensor();
  if (!x.defined()) return nullptr;
  check_changeable("in place", x);
  for (Operand& one : *both)
    if (one.tensor.defined() && grad_enabled()) one.tensor = before_change(x, one.tensor);
  const Kind *kind = nullptr, &own = *(*both)[0].kind;
  const Tensor y = compute(op, (*both)[0], (*both)[1], kind);
  if (y.shape() != x.shape() || kind->height > own.height) return nullptr;
  set_in_place("in place", x, cast(y, *kind, own));
  if (y.requires_grad())
    set_label(x, (*both)[1].tensor.defined() && entry.other_label != nullptr ? entry.other_label : entry.label);
  return Py_NewRef(given.values[0]);
}

template <Compare op> PyObject* comparison(const Given& given, const Entry& entry) {
  if (!given.by_position(2) || !is_tensor(given.values[0])) return nullptr;
  if (!is_tensor(given.values[1])) {
    const auto found = compared(op, py::handle(given.values[0]).cast<Tensor>(), given.values[1]);
    return found ? result(*found) : nullptr;
  }
  const auto both = operands_of(given, entry);
  const Kind& kind = result_kind(*both);
  const Tensor x = (*both)[0].in(kind), y = (*both)[1].in(kind);
  return result(without_gil(work_of(x, y), [&] { return ops::compare(op, x, y); }));
}

// Where a condition holds the numbers of one, else those of the other.
PyObject* chosen(const Given& given, const Entry& entry) {
  const Tensor condition = given.by_position(3) ? tensor_of(given.values[0]) : Tensor();
  if (!condition.defined() || condition.dtype() != DType::boolean) return nullptr;
  const std::array<Operand, 2> both{operand_of(given.values[1]), operand_of(given.values[2])};
  const Kind& kind = result_kind(both);
  const Tensor x = both[0].in(kind), y = both[1].in(kind);
  return result(without_gil(work_of(x, y), [&] { return ops::where(condition, x, y); }), entry.label, kind);
}

PyObject* mask_filled(const Given& given, const Entry& entry) {
  const Tensor x = given.by_position(3) ? tensor_of(given.values[0]) : Tensor();
  const Tensor mask = x.defined() ? tensor_of(given.values[1]) : Tensor();
  if (!mask.defined() || mask.dtype() != DType::boolean) return nullptr;
  Operand value = operand_of(given.values[2]);
  if (value.tensor.defined() && value.tensor.rank() > 0) return nullptr;
  if (value.tensor.defined()) value.tensor = value.tensor.detach();
  const Kind& kind = kind_of(given.values[0], x);
  const Tensor y = value.in(kind);
  return result(without_gil(work_of(x, mask), [&] { return ops::where(mask, y, x); }), entry.label, kind);
}

// A copy of an array, a number or a Tensor; of lists in Python.
PyObject* made(const Given& given, const Entry& entry) {
  std::array<PyObject*, 2> more{};
  if (given.count != 1 || !read_parameters(given, std::span(entry.parameters).first(2), more)) return nullptr;
  PyObject* data = given.values[0];
  if (PyList_Check(data) != 0 || PyTuple_Check(data) != 0) return nullptr;
  const bool recorded = more[1] == Py_True;
  if (more[1] != nullptr && !recorded && more[1] != Py_False) return nullptr;
  const Operand operand = operand_of(data);
  const Kind* kind = more[0] == nullptr || more[0] == Py_None ? operand.kind : computed_kind(more[0]);
  if (kind == nullptr || (recorded && kind->height < 2)) return nullptr;
  const Tensor t = operand.in(*kind);
  const Tensor own =
      t.defined() && t.impl() == operand.tensor.impl() && is_tensor(data) ? Tensor(cloned(t.data())) : t.detach();
  own.impl()->requires_grad = recorded;
  return result(own, nullptr, *kind);
}

// In the memory of the array, where that can be.
PyObject* shared(const Given& given, const Entry&) {
  if (!given.by_position(1)) return nullptr;
  const py::handle value = given.values[0];
  if (!py::isinstance<py::array>(value)) fail_type("from_numpy: expected an np.ndarray; got ", described(value));
  const auto array = py::reinterpret_borrow<py::array>(value);
  if (std::any_of(array.strides(), array.strides() + array.ndim(), [](py::ssize_t step) { return step < 0; }))
    fail_value("from_numpy: strides must not be negative, as in PyTorch; copy the array first");
  if (auto numbers = shared_with(array)) return result(Tensor(*std::move(numbers)));
  const Operand copy = operand_of(value.ptr());
  return result(copy.tensor, nullptr, *copy.kind);
}

// One number everywhere, also where several places are one in memory.
void filled_with(const Tensor& t, const Tensor& value, const Entry& entry) {
  const char* operation = entry.names;
  check_changeable(operation, t);
  if (wants_gradient({t, value})) {
    set_in_place(operation, t, replacement(t, value));
    set_label(t, entry.label);
  } else {
    write(t.data(), ops::broadcast_to(value, t.shape()).data());
  }
}

PyObject* fill(const Given& given, const Entry& entry) {
  const Tensor t = given.by_position(2) ? tensor_of(given.values[0]) : Tensor();
  if (!t.defined()) return nullptr;
  filled_with(t, operand_of(given.values[1]).in(kind_of(given.values[0], t)), entry);
  return Py_NewRef(given.values[0]);
}

PyObject* zero(const Given& given, const Entry& entry) {
  const Tensor t = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  if (!t.defined()) return nullptr;
  filled_with(t, Tensor(Array::full({}, t.dtype(), 0)), entry);
  return Py_NewRef(given.values[0]);
}

PyObject* overwritten(const Given& given, const Entry& entry) {
  const Tensor t = given.count > 1 && given.names == nullptr ? tensor_of(given.values[0]) : Tensor();
  if (!t.defined() || given.count > 3) return nullptr;
  check_changeable("copy_", t);
  const Tensor source = before_change(t, operand_of(given.values[1]).in(kind_of(given.values[0], t)));
  const Tensor y = without_gil(t.numel(), [&] { return replacement(before_change(t, t), source); });
  set_in_place("copy_", t, y);
  if (y.requires_grad()) set_label(t, entry.label);
  return Py_NewRef(given.values[0]);
}

// In a dtype, or on the CPU; itself if it is that.
PyObject* moved(const Given& given, const Entry& entry) {
  std::array<PyObject*, 1> more{};
  const Tensor x = given.count > 0 ? tensor_of(given.values[0]) : Tensor();
  if (!x.defined() || !read_parameters(given, std::span(entry.parameters).first(1), more) || more[0] == nullptr)
    return nullptr;
  PyObject* wanted = more[0];
  if (PyUnicode_Check(wanted) != 0 && PyUnicode_CompareWithASCIIString(wanted, "cpu") == 0)
    return Py_NewRef(given.values[0]);
  const Kind *kind = computed_kind(wanted), &own = kind_of(given.values[0], x);
  if (kind == nullptr) return nullptr;
  if (kind == &own) return Py_NewRef(given.values[0]);
  return result(without_gil(x.numel(), [&] { return cast(x, own, *kind); }), entry.label, *kind);
}

PyObject* dtype(const Given& given, const Entry&) {
  const Tensor t = given.by_position(1) ? tensor_of(given.values[0]) : Tensor();
  return t.defined() ? Py_NewRef(kind_of(given.values[0], t).object) : nullptr;
}

}  // namespace

std::span<const Entry> arithmetic_entries() {
  static constexpr Entry all[] = {
      {"add __add__", arithmetic<Binary::add>, "AddBackward0", nullptr, {{{"other"}, {"alpha"}}}},
      {"__radd__", arithmetic<Binary::add, true>, "AddBackward0"},
      {"sub subtract __sub__", arithmetic<Binary::subtract>, "SubBackward0", nullptr, {{{"other"}, {"alpha"}}}},
      {"rsub __rsub__", arithmetic<Binary::subtract, true>, "RsubBackward1"},
      {"mul multiply __mul__", arithmetic<Binary::multiply>, "MulBackward0"},
      {"__rmul__", arithmetic<Binary::multiply, true>, "MulBackward0"},
      {"div divide true_divide __truediv__", arithmetic<Binary::divide>, "DivBackward0"},
      {"pow __pow__", arithmetic<Binary::power>, "PowBackward0", "PowBackward1"},
      {"__rpow__", arithmetic<Binary::power, true>, "PowBackward0", "PowBackward1"},
      {"__rtruediv__", number_over, "MulBackward0"},
      {"floor_divide __floordiv__", arithmetic<Binary::floor_divide>, "NotImplemented"},
      {"__rfloordiv__", arithmetic<Binary::floor_divide, true>, "NotImplemented"},
      {"remainder __mod__", arithmetic<Binary::remainder>, "RemainderBackward0"},
      {"__rmod__", arithmetic<Binary::remainder, true>, "RemainderBackward0"},
      {"maximum", arithmetic<Binary::maximum>, "MaximumBackward0"},
      {"minimum", arithmetic<Binary::minimum>, "MinimumBackward0"},
      {"bitwise_and __and__ __rand__", both<ops::Bitwise::bit_and>},
      {"bitwise_or __or__ __ror__", both<ops::Bitwise::bit_or>},
      {"bitwise_xor __xor__ __rxor__", both<ops::Bitwise::bit_xor>},
      {"bitwise_not __invert__", turned_round},
      {"add_ __iadd__", changed<Binary::add>, "AddBackward0", nullptr, {{{"other"}, {"alpha"}}}},
      {"sub_ __isub__", changed<Binary::subtract>, "SubBackward0", nullptr, {{{"other"}, {"alpha"}}}},
      {"mul_ __imul__", changed<Binary::multiply>, "MulBackward0"},
      {"div_ __itruediv__", changed<Binary::divide>, "DivBackward0"},
      {"pow_ __ipow__", changed<Binary::power>, "PowBackward0", "PowBackward1"},
      {"remainder_ __imod__", changed<Binary::remainder>, "RemainderBackward0"},
      {"floor_divide_ __ifloordiv__", changed<Binary::floor_divide>, "NotImplemented"},
      {"eq __eq__", comparison<Compare::equal>},
      {"ne __ne__", comparison<Compare::not_equal>},
      {"lt __lt__", comparison<Compare::less>},
      {"le __le__", comparison<Compare::less_equal>},
      {"gt __gt__", comparison<Compare::greater>},
      {"ge __ge__", comparison<Compare::greater_equal>},
      {"where", chosen, "WhereBackward0"},
      {"masked_fill", mask_filled, "MaskedFillBackward0"},
      {"tensor", made, nullptr, nullptr, {{{"dtype"}, {"requires_grad"}}}},
      {"from_numpy", shared},
      {"to", moved, "ToCopyBackward0", nullptr, {{{"dtype", "device"}}}},
      {"dtype", dtype},
      {"fill_", fill, "FillBackward0"},
      {"zero_", zero, "ZeroBackward0"},
      {"copy_", overwritten, "CopyBackwards"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
