#include "bindings/tensor/promotion.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "autograd/strided.h"
#include "bindings/tensor/derived_class.h"
#include "bindings/tensor/tensor_class.h"
#include "ops/integers.h"
#include "ops/ops.h"

namespace qkv::bindings::derived {

std::deque<Kind>& kinds() {
  static auto* all = new std::deque<Kind>;
  return *all;
}

namespace {

// Integers of some width, or the floating ones.
const Kind& kind_with(int category, int bytes, bool has_sign) {
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) {
    return one.category == category && one.bytes == bytes && one.has_sign == has_sign;
  });
  if (found == kinds().end()) throw std::logic_error("qkv: no such dtype");
  return *found;
}

const Kind& kind_of_array(const py::array& array) {
  const char kind = array.dtype().kind();
  const auto bytes = static_cast<int>(array.itemsize());
  if (kind == 'b') return kind_of(DType::boolean);
  if (kind == 'i') return kind_with(1, bytes, true);
  if (kind == 'u' && bytes < 8) return bytes == 1 ? kind_with(1, 1, false) : kind_with(1, 2 * bytes, true);
  if (kind == 'f' && bytes <= 8) return kind_with(2, std::max(bytes, 4), true);
  fail_type("tensor: data must hold numbers of a dtype that torch has; got ",
            std::string(py::str(array.dtype().attr("name"))));
}

bool is_numpys(PyObject* value, const char* name) { return PyObject_IsInstance(value, numpy().attr(name).ptr()) == 1; }

const Kind& kind_of_number(PyObject* value) {
  if (PyFloat_Check(value) != 0) return kind_of(default_dtype);
  if (PyBool_Check(value) != 0) return kind_of(DType::boolean);
  if (PyLong_Check(value) != 0 || is_numpys(value, "integer")) return kind_of(DType::int64);
  if (is_numpys(value, "bool_")) return kind_of(DType::boolean);
  if (!is_numpys(value, "floating"))
    fail_type("expected real numbers because qkv computes in no others; got ", described(value));
  return kind_of(default_dtype);
}

}  // namespace

const Kind& kind_of(DType core) {
  static const Kind* const all[] = {&kind_with(2, 4, true), &kind_with(2, 8, true), &kind_with(1, 8, true),
                                    &kind_with(0, 1, false)};
  return *all[static_cast<std::size_t>(core)];
}

const Kind* kind_named(PyObject* kind) {
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& one) { return one.object == kind; });
  return found == kinds().end() ? nullptr : &*found;
}

const Kind& kind_of(PyObject* value, const Tensor& t) {
  if (t.dtype() == DType::int64 && tensor_of(value).defined())
    if (const Kind* narrow = kind_named(kind_of(value).ptr()); narrow != nullptr) return *narrow;
  return kind_of(t.dtype());
}

Operand operand_of(PyObject* value) {
  if (Tensor t = tensor_of(value); t.defined()) return {value, t, &kind_of(value, t)};
  if (is_tensor(value)) {
    const auto t = py::handle(value).cast<Tensor>();
    return {value, t, &kind_of(t.dtype())};
  }
  if (!py::isinstance<py::array>(value)) return {value, {}, &kind_of_number(value)};
  const Kind& kind = kind_of_array(py::reinterpret_borrow<py::array>(value));
  return {value, Tensor(copy_of(value, py::none(), "tensor")), &kind};
}

Tensor Operand::in(const Kind& wanted) const {
  if (tensor.defined()) return cast(tensor, *kind, wanted);
  const bool whole = PyIndex_Check(value) != 0;
  if (wanted.category == 1 && whole) {
    const auto number = whole_number(value);
    if (!number) throw std::overflow_error("a number must fit in int64 because the dtype does");
    return cut(Tensor(Array::full({}, DType::int64, *number)), wanted);
  }
  const double number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw py::error_already_set();
    PyErr_Clear();
    throw std::overflow_error("a number must fit in float64 because the dtype does");
  }
  const Tensor t(Array::full({}, wanted.category == 2 ? wanted.core : DType::float64, number));
  return wanted.category == 2 ? t : cast(t, kind_of(DType::float64), wanted);
}

const Kind& common(const Kind& a, const Kind& b) {
  if (a.category != b.category) return a.category > b.category ? a : b;
  if (a.category == 1 && a.bytes == 1 && b.bytes == 1 && a.has_sign != b.has_sign) return kind_with(1, 2, true);
  if (a.bytes == b.bytes) return b;
  return a.bytes > b.bytes ? a : b;
}

const Kind& result_kind(std::span<const Operand> operands) {
  if (operands.empty()) fail_type("expected at least one operand; got none");
  std::array<const Kind*, 3> found{};
  for (const Operand& one : operands) {
    const std::size_t rank = !one.tensor.defined() ? 2 : one.tensor.rank() == 0 ? 1 : 0;
    found[rank] = found[rank] == nullptr ? one.kind : &common(*found[rank], *one.kind);
  }
  const Kind* best = nullptr;
  for (const Kind* kind : found)
    if (kind != nullptr && (best == nullptr || kind->category > best->category)) best = kind;
  return *best;
}

Tensor cut(const Tensor& t, const Kind& kind) {
  if (!kind.narrow()) return t;
  const Array numbers = ops::cut_to_width(t.data(), kind.bytes, kind.has_sign);
  return numbers.is(t.data()) ? t : Tensor(numbers);
}

Tensor cast(const Tensor& t, const Kind& from, const Kind& to) {
  if (&from == &to) return t;
  return cut(from.core == to.core ? Tensor(cloned(t.data())) : ops::cast(t, to.core), to);
}

PyObject* result(const Tensor& t, const char* label, const Kind& kind) {
  if (!kind.narrow()) return result(t, label);
  PyObject* made = result(cut(t, kind));
  set_kind(made, kind.object);
  return made;
}

}  // namespace qkv::bindings::derived
