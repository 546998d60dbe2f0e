#include <algorithm>

#include "bindings/call/warning.h"
#include "bindings/values/options.h"
#include "core/error.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// Whether x holds 0 and 1, both of them, and nothing else. Ends at the first block with another number.
template <class T> bool zeros_and_ones(const T* x, Index n) {
  constexpr Index kBlock = 64;
  Index ones = 0;
  for (Index begin = 0; begin < n; begin += kBlock) {
    const Index end = std::min(n, begin + kBlock);
    int others = 0, found = 0;
    for (Index i = begin; i < end; ++i) {
      const int one = x[i] == T(1);
      others += 1 - one - static_cast<int>(x[i] == T(0));
      found += one;
    }
    if (others > 0) return false;
    ones += found;
  }
  return ones > 0 && ones < n;
}

}  // namespace

ops::Causal causal_from(py::handle value, const char* operation) {
  if (PyBool_Check(value.ptr()) != 0) return value.cast<bool>() ? ops::Causal::upper_left : ops::Causal::none;
  if (py::isinstance<py::str>(value)) {
    const auto name = value.cast<std::string>();
    if (name == "upper_left") return ops::Causal::upper_left;
    if (name == "lower_right") return ops::Causal::lower_right;
    fail_value(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
  }
  fail_type(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
}

std::optional<std::pair<Index, Index>> window_from(py::handle value, const char* operation) {
  if (value.is_none()) return {};
  const Shape sides = PyIndex_Check(value.ptr()) != 0 ? Shape{} : shape_from(value, operation, "window");
  if (sides.rank() != 2)
    fail_value(operation, ": window must be (left, right), the keys that a query sees before and behind itself; got ",
               described(value));
  if (sides[0] < -1 || sides[1] < -1)
    fail_value(operation, ": window must be (left, right) with -1 for unlimited or numbers from 0; got ",
               described(value));
  return std::pair(sides[0], sides[1]);
}

void check_constant(py::handle value, const char* operation, const char* name, const char* advice) {
  if (!PyFloat_CheckExact(value.ptr()) && is_tensor(value) && wants_gradient({value.cast<Tensor>()}))
    fail_type(operation, ": ", name, " must be a number because it takes no gradient; got a Tensor that requires one",
              advice);
}

std::optional<double> number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) return {};
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  check_constant(value, operation, name, ", detach() it");
  if (PyNumber_Check(value.ptr()) == 0 || py::isinstance<py::str>(value))
    fail_type(operation, ": ", name, " must be a number; got ", described(value));
  PyObject* number = PyNumber_Float(value.ptr());
  if (number == nullptr) {
    PyErr_Clear();
    fail_type(operation, ": ", name, " must be a number; got ", described(value));
  }
  return py::reinterpret_steal<py::float_>(number).cast<double>();
}

double required_number_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) fail_type(operation, ": ", name, " must be a number; got None");
  return *number_from(value, operation, name);
}

Index count_of(const Tensor& keys) { return !keys.defined() || keys.rank() < 2 ? 0 : keys.dim(-2); }

void warn_of_swapped(const char* operation, const ops::MaskSpec& mask_spec, Index keys) {
  const Tensor& mask = mask_spec.attn_mask;
  const Array& valid_lens = mask_spec.valid_lens;
  if (mask.defined() && is_floating(mask.dtype()) && !mask.requires_grad() &&
      visit_floating(mask.dtype(), [&]<class T>(T) { return zeros_and_ones(mask.ptr<T>(), mask.numel()); }))
    warn_caller(std::string(operation) +
                ": a float mask is added to the scores, and this one holds only 0 and 1, so it excludes "
                "nothing; pass a boolean mask (True = may attend) to exclude");
  if (keys != 1 && valid_lens.defined() && valid_lens.rank() == 2 &&
      zeros_and_ones(valid_lens.data<std::int64_t>(), valid_lens.numel()))
    warn_caller(std::string(operation) + ": " + mask_spec.names.valid_lens +
                " counts keys, and this array of two axes holds only 0 and 1, as a mask of padding "
                "does; pass the mask as a boolean one, or the number of real keys per item");
}

ops::ImageOptions image_from(py::handle image) {
  using Range = std::optional<std::pair<Index, Index>>;
  const auto [height, width, rows, columns, largest] = image.cast<std::tuple<Index, Index, Range, Range, bool>>();
  return {height, width, rows, columns, largest};
}

}  // namespace qkv::bindings
