#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_norm(Functions& m) {
  op<Floating, FloatingOrNone, FloatingOrNone, Sizes, double>(m, "layer_norm(x, weight, bias, normalized_shape, eps)",
                                                              ops::layer_norm);
  op<Floating, Floating, FloatingOrNone, FloatingOrNone, Sizes, double>(
      m, "add_layer_norm(x, residual, weight, bias, normalized_shape, eps)", ops::add_layer_norm);
  op<Floating, FloatingOrNone, Sizes, double>(m, "rms_norm(x, weight, normalized_shape, eps)", ops::rms_norm);
  op<Floating, Number, Axes, Number>(m, "normalize(x, p, axis, eps)", ops::normalize);
}

}  // namespace qkv::bindings
