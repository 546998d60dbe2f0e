// The kernels of Nadaraya-Watson pooling by name, and element by element.
#include "kernels/kernels.h"
#include "ops/kernel_composed.h"

namespace qkv::ops {

Kernel kernel_named(const char* operation, const std::string& name) {
  if (name == "gaussian") return Kernel::gaussian;
  if (name == "boxcar") return Kernel::boxcar;
  if (name == "constant") return Kernel::constant;
  if (name == "epanechnikov") return Kernel::epanechnikov;
  if (name == "triangular") return Kernel::triangular;
  fail_value(operation,
             ": kernel must be one of gaussian, boxcar, constant, epanechnikov, triangular or a callable because "
             "only these are defined; got '",
             name, "'");
}

Tensor kernel_values(const Tensor& input, Kernel kernel) {
  const Tensor u = floating(input);
  Array y(u.shape(), u.dtype());
  visit_floating(u.dtype(), [&]<class T>(T) {
    kernels::kernels<T>().kernel_pooling.values(y.data<T>(), u.ptr<T>(), kernel, u.numel());
  });
  if (!wants_gradient({u})) return Tensor(std::move(y));
  return record_fused(
      std::move(y), {u},
      [kernel](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&]<class T>(T) {
          kernels::kernels<T>().kernel_pooling.values_backward(dx.of(0).data<T>(), dy.data<T>(), dx.input(0).data<T>(),
                                                               kernel, dy.numel());
        });
      },
      derived_from([kernel](const Tensors& inputs) { return composed_values(kernel, inputs[0]); }));
}

}  // namespace qkv::ops
