#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_norm(py::module_& m) {
  m.def("layer_norm", [](py::handle x, py::handle weight, py::handle bias, py::handle normalized_shape, double eps) {
    Call call("layer_norm");
    const Tensor input = call.floating(x, "x"), w = call.optional(weight, "weight"), b = call.optional(bias, "bias");
    const Shape shape = shape_from(normalized_shape, "layer_norm", "normalized_shape");
    return call.result(without_gil([&] { return ops::layer_norm(input, w, b, shape, eps); }));
  });
  m.def("add_layer_norm", [](py::handle x, py::handle residual, py::handle weight, py::handle bias,
                             py::handle normalized_shape, double eps) {
    Call call("add_layer_norm");
    const Tensor input = call.floating(x, "x"), other = call.floating(residual, "residual");
    const Tensor w = call.optional(weight, "weight"), b = call.optional(bias, "bias");
    const Shape shape = shape_from(normalized_shape, "add_layer_norm", "normalized_shape");
    return call.result(without_gil([&] { return ops::add_layer_norm(input, other, w, b, shape, eps); }));
  });
  m.def("rms_norm", [](py::handle x, py::handle weight, py::handle normalized_shape, double eps) {
    Call call("rms_norm");
    const Tensor input = call.floating(x, "x"), w = call.optional(weight, "weight");
    const Shape shape = shape_from(normalized_shape, "rms_norm", "normalized_shape");
    return call.result(without_gil([&] { return ops::rms_norm(input, w, shape, eps); }));
  });
}

}  // namespace qkv::bindings
