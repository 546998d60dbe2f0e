#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_activation(Functions& m) {
  const auto activation = [&](const char* name, Tensor (*f)(const Tensor&)) {
    m.def(text(name, "(x)"), [name, f](py::handle x) {
      Call call(name);
      const Tensor input = call.floating(x, "x");
      return call.result(without_gil(input.numel(), [&] { return f(input); }));
    });
  };
  activation("relu", ops::relu);
  activation("tanh", ops::tanh);
  activation("sigmoid", ops::sigmoid);
  activation("silu", ops::silu);
  const auto shaped = [&](const char* name, const char* number, Tensor (*f)(const Tensor&, double)) {
    m.def(text(name, "(x, ", number, ")"), [name, number, f](py::handle x, py::handle a) {
      Call call(name);
      const Tensor input = call.floating(x, "x");
      const double value = required_number_from(a, name, number);
      return call.result(without_gil(input.numel(), [&] { return f(input, value); }));
    });
  };
  shaped("leaky_relu", "negative_slope", ops::leaky_relu);
  shaped("elu", "alpha", ops::elu);
  shaped("softplus", "beta", ops::softplus);
  m.def("gelu(x, approximate)", [](py::handle x, const std::string& approximate) {
    if (approximate != "none" && approximate != "tanh")
      fail_value("gelu: approximate must be 'none' or 'tanh' because these are the two forms; got '", approximate, "'");
    Call call("gelu");
    const Tensor input = call.floating(x, "x");
    return call.result(without_gil(input.numel(), [&] { return ops::gelu(input, approximate == "tanh"); }));
  });
}

}  // namespace qkv::bindings
