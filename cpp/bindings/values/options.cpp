#include <algorithm>

#include "autograd/strided.h"
#include "bindings/call/warning.h"
#include "bindings/values/options.h"
#include "core/error.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// Which numbers an array holds. Reading ends at the first block with another one than 0 and 1.
struct NumbersFound {
  bool zeros = false, ones = false, others = false;
};
NumbersFound zeros_and_ones(const Array& given) {
  constexpr Index kBlock = 64;
  const Array x = without_repeats(given);
  NumbersFound found;
  if (x.numel() == 0) return found;
  const Loops<1> loops(x.shape(), {x.strides()});
  const Index n = loops.run(), step = loops.run_stride(0);
  const auto read_run = [&]<class T>(const T* run) {
    for (Index begin = 0; begin < n && !found.others; begin += kBlock) {
      const Index end = std::min(n, begin + kBlock);
      Index zeros = 0, ones = 0;
      for (Index i = begin; i < end; ++i) {
        zeros += static_cast<Index>(run[i * step] == T(0));
        ones += static_cast<Index>(run[i * step] == T(1));
      }
      found.zeros |= zeros > 0;
      found.ones |= ones > 0;
      found.others = zeros + ones < end - begin;
    }
  };
  visit_any(x.dtype(), [&]<class T>(T) {
    for (Index row = 0; row < loops.rows() && !found.others; row += kBlock)
      loops.each_row(row, std::min(loops.rows(), row + kBlock),
                     [&](const std::array<Index, 1>& at) { read_run(x.first_as<T>() + at[0]); });
  });
  return found;
}

}  // namespace

ops::Causal causal_from(py::handle value, const char* operation) {
  if (PyBool_Check(value.ptr()) != 0)
    return value.is(py::handle(Py_True)) ? ops::Causal::upper_left : ops::Causal::none;
  if (py::isinstance<py::str>(value)) {
    const auto name = value.cast<std::string>();
    if (name == "upper_left") return ops::Causal::upper_left;
    if (name == "lower_right") return ops::Causal::lower_right;
    fail_value(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
  }
  if (py::isinstance(value, numpy().attr("bool_")))
    return causal_from(py::bool_(py::reinterpret_borrow<py::object>(value)), operation);
  fail_type(operation, ": is_causal must be False, True, \"upper_left\" or \"lower_right\"; got ", described(value));
}

std::optional<std::pair<Index, Index>> window_from(py::handle value, const char* operation) {
  if (value.is_none()) return {};
  const bool alone = PyIndex_Check(value.ptr()) != 0 || (is_tensor(value) && value.cast<Tensor>().rank() == 0);
  const Shape sides = alone ? Shape{} : shape_from(value, operation, "window");
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
  if (mask_spec.has_bias() && !mask.requires_grad())
    if (const NumbersFound found = zeros_and_ones(mask.data()); found.zeros && found.ones && !found.others)
      warn_caller(std::string(operation) +
                  ": a float mask is added to the scores, and this one holds only 0 and 1, so it excludes "
                  "nothing; pass a boolean mask (True = may attend) to exclude");
  if (mask_spec.valid_lens.defined())
    warn_of_mask_as_lengths(operation, mask_spec.names.valid_lens, mask_spec.valid_lens, keys);
}

void warn_of_mask_as_lengths(const char* operation, const char* name, const Array& lengths, Index keys) {
  if (keys == 1 || lengths.rank() != 2) return;
  const NumbersFound found = zeros_and_ones(lengths);
  // A batch without padding has a mask of ones, as long as its sentences.
  if (found.others || !found.ones || (!found.zeros && lengths.dim(1) != keys)) return;
  warn_caller(text(operation, ": ", name,
                   " counts keys, and this array of two axes holds only 0 and 1, as a mask of padding does; pass the "
                   "mask as a boolean one, or the number of real keys per item"));
}

ops::ImageOptions image_from(py::handle image) {
  using Range = std::optional<std::pair<Index, Index>>;
  const auto [height, width, rows, columns, largest] = image.cast<std::tuple<Index, Index, Range, Range, bool>>();
  return {height, width, rows, columns, largest};
}

}  // namespace qkv::bindings
