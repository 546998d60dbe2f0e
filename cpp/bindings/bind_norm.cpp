#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_norm(Functions& m) {
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
  m.def("normalize(x, p, axis, eps)", [](py::handle x, py::handle p, py::handle axis, py::handle eps) {
    Call call("normalize");
    const Tensor input = call.floating(x, "x");
    const double order = required_number_from(p, "normalize", "p");
    const double least = required_number_from(eps, "normalize", "eps");
    const auto axes = axes_from(axis, "normalize");
    return call.result(without_gil(input.numel(), [&] { return ops::normalize(input, order, axes, least); }));
  });
}

}  // namespace qkv::bindings
