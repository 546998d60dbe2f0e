// Functions that move numbers, order them or make arrays of their places.
#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/operation.h"
#include "bindings/tensor_class.h"
#include "core/in_range.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// Along an axis, or of all numbers in a row.
void def_running(Functions& m, const char* name, Tensor (*f)(const Tensor&, Index)) {
  op<Any, Axis>(m, text(name, "(x, axis=None)"), [f](const Tensor& x, std::optional<Index> axis) {
    return f(axis ? x : ops::reshape(x, {-1}), axis.value_or(0));
  });
}

using Found = std::pair<Tensor, Array>;  // numbers, and where they stood
Found found_at(const Tensor& x, Array places, Index axis) {
  return {ops::take_along_axis(x, places, axis), std::move(places)};
}

}  // namespace

void bind_arrays(Functions& m) {
  def_running(m, "cumsum", [](const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); });
  def_running(m, "cumprod", ops::cumulative_product);
  op<Any, Index, bool>(m, "sort(x, axis, descending)", [](const Tensor& x, Index axis, bool descending) {
    ops::Sorted sorted = ops::sort(x, axis, descending);
    return Found{std::move(sorted.values), std::move(sorted.places)};
  });
  op<Any, Index>(m, "median(x, axis)",
                 [](const Tensor& x, Index axis) { return found_at(x, ops::middle_places(x, axis), axis); });
  op<Any, Index, Index, bool>(m, "topk(x, k, axis, largest)", [](const Tensor& x, Index k, Index axis, bool largest) {
    return found_at(x, ops::topk(x, k, axis, largest), axis);
  });
  op<Any, Index>(m, "tril(x, k=0)", ops::lower_triangle);
  op<Any, Index>(m, "triu(x, k=0)", ops::upper_triangle);
  op<Any, py::handle, py::handle, py::handle>(
      m, "pad(x, before, behind, value)", [](const Tensor& x, py::handle before, py::handle behind, py::handle value) {
        const auto number = operand("pad", x, value);
        if (!number || number->numel() != 1) fail_type("pad: constant_values must be a number; got ", described(value));
        const Shape first = shape_from(before, "pad", "pad_width"), last = shape_from(behind, "pad", "pad_width");
        return without_gil(x.numel(), [&] { return ops::pad(x, first, last, *number); });
      });
  op<Any, Integers, Index>(m, "take_along_axis(x, indices, axis)", ops::take_along_axis);
  m.def("one_hot(ids, num_classes)", [](py::handle ids, std::optional<Index> classes) {
    Call call("one_hot");
    const Array numbers = call.integers(ids, "ids");
    if (is_tensor(ids)) call.force_tensor();
    return call.result(without_gil(numbers.numel(), [&] { return ops::one_hot(numbers, classes); }));
  });
  op(m, "einsum(subscripts, operands)", [](const py::str& subscripts, const py::tuple& operands, Call& call) {
    py::list tensors;
    for (const py::handle operand : operands) tensors.append(py::cast(call.any(operand, "operands")));
    return callback("einsum")(subscripts, *tensors).cast<Tensor>();
  });
  // NumPy's array of anything that functions take, with their errors.
  m.def("as_numpy(value, operation, name)",
        [](py::handle value, const std::string& operation, const std::string& name) {
          return as_numpy(value, operation.c_str(), name.c_str());
        });
  // Refuses a number that float32 makes infinite, or 0.
  m.def("check_float32(operation, name, value)",
        [](const std::string& operation, const std::string& name, double value) {
          in_range_above_zero<float>(operation, name.c_str(), value);
        });
}

}  // namespace qkv::bindings
