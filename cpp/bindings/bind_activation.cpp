#include "bindings/bindings.h"
#include "bindings/convert.h"
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
  m.def("gelu", [](py::handle x, const std::string& approximate) {
    if (approximate != "none" && approximate != "tanh")
      fail_value("gelu: approximate must be 'none' or 'tanh' because these are the two forms; got '", approximate, "'");
    Call call("gelu");
    const Tensor input = call.floating(x, "x");
    return call.result(without_gil([&] { return ops::gelu(input, approximate == "tanh"); }));
  });
}

}  // namespace qkv::bindings
