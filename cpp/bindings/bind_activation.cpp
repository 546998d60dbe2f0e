#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_activation(py::module_& m) {
  const auto activation = [&](const char* name, Tensor (*f)(const Tensor&)) {
    m.def(name, [name, f](py::handle x) {
      Call call(name);
      const Tensor input = call.floating(x, "x");
      return call.result(without_gil([&] { return f(input); }));
    });
  };
  activation("relu", ops::relu);
  activation("tanh", ops::tanh);
  activation("sigmoid", ops::sigmoid);
  activation("silu", ops::silu);
  const auto shaped = [&](const char* name, const char* number, Tensor (*f)(const Tensor&, double)) {
    m.def(
        name,
        [name, number, f](py::handle x, py::handle a) {
          Call call(name);
          const Tensor input = call.floating(x, "x");
          const double value = required_number_from(a, name, number);
          return call.result(without_gil([&] { return f(input, value); }));
        },
        py::arg("x"), py::arg(number));
  };
  shaped("leaky_relu", "negative_slope", ops::leaky_relu);
  shaped("elu", "alpha", ops::elu);
  shaped("softplus", "beta", ops::softplus);
  m.def("gelu", [](py::handle x, const std::string& approximate) {
    if (approximate != "none" && approximate != "tanh")
      fail_value("gelu: approximate must be 'none' or 'tanh' because these are the two forms; got '", approximate, "'");
    Call call("gelu");
    const Tensor input = call.floating(x, "x");
    return call.result(without_gil([&] { return ops::gelu(input, approximate == "tanh"); }));
  });
}

}  // namespace qkv::bindings
