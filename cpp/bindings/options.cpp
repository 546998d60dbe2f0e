#include "bindings/options.h"

#include "core/error.h"

namespace qkv::bindings {
namespace {

std::string shown(py::handle value) { return py::str(py::repr(value)); }

}  // namespace

ops::Causal causal_from(py::handle value, const char* operation) {
  if (PyBool_Check(value.ptr()) != 0) return value.cast<bool>() ? ops::Causal::upper_left : ops::Causal::none;
  if (py::isinstance<py::str>(value)) {
    const auto name = value.cast<std::string>();
    if (name == "upper_left") return ops::Causal::upper_left;
    if (name == "lower_right") return ops::Causal::lower_right;
    fail_value(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", shown(value));
  }
  fail_type(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", shown(value));
}

std::optional<std::pair<Index, Index>> window_from(py::handle value, const char* operation) {
  if (value.is_none()) return {};
  const Shape sides = PyIndex_Check(value.ptr()) != 0 ? Shape{} : shape_from(value, operation, "window");
  if (sides.rank() != 2)
    fail_value(operation, ": window must be (left, right), the keys that a query sees before and behind itself; got ", shown(value));
  if (sides[0] < -1 || sides[1] < -1)
    fail_value(operation, ": window must be (left, right) with -1 for unlimited or numbers from 0; got ", shown(value));
  return std::pair(sides[0], sides[1]);
}

std::optional<double> number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) return {};
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  if (is_tensor(value) || PyNumber_Check(value.ptr()) == 0 || py::isinstance<py::str>(value))
    fail_type(operation, ": ", name, " must be a number; got ", shown(value));
  PyObject* number = PyNumber_Float(value.ptr());
  if (number == nullptr) {
    PyErr_Clear();
    fail_type(operation, ": ", name, " must be a number; got ", shown(value));
  }
  return py::reinterpret_steal<py::float_>(number).cast<double>();
}

double required_number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) fail_type(operation, ": ", name, " must be a number; got None");
  return *number_from(value, operation, name);
}

nn::Restriction restriction_from(Call& call, py::handle valid_lens, py::handle attn_mask, py::handle dropout_keep) {
  nn::Restriction restriction;
  restriction.valid_lens = call.integers(valid_lens, "valid_lens");
  if (!attn_mask.is_none()) restriction.attn_mask = call.any(attn_mask, "attn_mask", false);
  restriction.dropout_keep = call.booleans(dropout_keep, "dropout_keep");
  return restriction;
}

}  // namespace qkv::bindings
