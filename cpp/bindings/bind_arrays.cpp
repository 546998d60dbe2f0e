// Functions that move numbers, order them or make arrays of their places.
#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/options.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_arrays(Functions& m) {
  const auto running = [&](const char* name, Tensor (*f)(const Tensor&, Index)) {
    m.def(text(name, "(x, axis=None)"), [name, f](py::handle x, py::handle axis) {
      Call call(name);
      const Tensor input = call.any(x, "x");
      const std::optional<Index> along = one_axis_from(axis, name);
      const Tensor numbers = along ? input : ops::reshape(input, {-1});
      return call.result(without_gil(input.numel(), [&] { return f(numbers, along.value_or(0)); }));
    });
  };
  running("cumsum", [](const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); });
  running("cumprod", ops::cumulative_product);
  m.def("sort(x, axis, descending)", [](py::handle x, Index axis, bool descending) {
    Call call("sort");
    const Tensor input = call.any(x, "x");
    const ops::Sorted sorted = without_gil(input.numel(), [&] { return ops::sort(input, axis, descending); });
    return py::make_tuple(call.result(sorted.values), call.result(sorted.places));
  });
  m.def("median(x, axis)", [](py::handle x, Index axis) {
    Call call("median");
    const Tensor input = call.any(x, "x");
    const Array places = without_gil(input.numel(), [&] { return ops::middle_places(input, axis); });
    return py::make_tuple(call.result(ops::take_along_axis(input, places, axis)), call.result(places));
  });
  const auto triangle = [&](const char* name, Tensor (*f)(const Tensor&, Index)) {
    m.def(text(name, "(x, k=0)"), [name, f](py::handle x, Index k) {
      Call call(name);
      const Tensor input = call.any(x, "x");
      return call.result(without_gil(input.numel(), [&] { return f(input, k); }));
    });
  };
  triangle("tril", ops::lower_triangle);
  triangle("triu", ops::upper_triangle);
  m.def("pad(x, before, behind, value)", [](py::handle x, py::handle before, py::handle behind, py::handle value) {
    Call call("pad");
    const Tensor input = call.any(x, "x");
    const auto number = operand("pad", input, value);
    if (!number || number->numel() != 1) fail_type("pad: constant_values must be a number; got ", described(value));
    const Shape first = shape_from(before, "pad", "pad_width"), last = shape_from(behind, "pad", "pad_width");
    return call.result(without_gil(input.numel(), [&] { return ops::pad(input, first, last, *number); }));
  });
  m.def("extreme(x, axis, keepdims, largest)", [](const Tensor& x, Index axis, bool keepdims, bool largest) {
    return without_gil(x.numel(), [&] { return ops::extreme(x, axis, keepdims, largest); });
  });
  m.def("topk(x, k, axis, largest)", [](py::handle x, Index k, Index axis, bool largest) {
    Call call("topk");
    const Tensor input = call.any(x, "x");
    const Array places = without_gil(input.numel(), [&] { return ops::topk(input, k, axis, largest); });
    return py::make_tuple(call.result(ops::take_along_axis(input, places, axis)), call.result(places));
  });
  m.def("take_along_axis(x, indices, axis)", [](py::handle x, py::handle indices, Index axis) {
    Call call("take_along_axis");
    const Tensor input = call.any(x, "x");
    const Array places = call.integers(indices, "indices", false);
    return call.result(without_gil(places.numel(), [&] { return ops::take_along_axis(input, places, axis); }));
  });
  m.def("one_hot(ids, num_classes)", [](py::handle ids, std::optional<Index> classes) {
    Call call("one_hot");
    const Array numbers = call.integers(ids, "ids", false);
    if (is_tensor(ids)) call.force_tensor();
    return call.result(without_gil(numbers.numel(), [&] { return ops::one_hot(numbers, classes); }));
  });
  m.def("einsum(subscripts, operands)", [](const py::str& subscripts, const py::tuple& operands) {
    Call call("einsum");
    py::list tensors;
    for (const py::handle operand : operands) tensors.append(py::cast(call.any(operand, "operands")));
    const py::object y = callback("einsum")(subscripts, *tensors);
    return call.result(y.cast<Tensor>());
  });
  // NumPy's array of anything that functions take, with their errors.
  m.def("as_numpy(value, operation, name)",
        [](py::handle value, const std::string& operation, const std::string& name) {
          return as_numpy(value, operation.c_str(), name.c_str());
        });
}

}  // namespace qkv::bindings
