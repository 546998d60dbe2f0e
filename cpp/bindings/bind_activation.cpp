#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_activation(Functions& m) {
  op(m, "relu(x)", ops::relu);
  op(m, "tanh(x)", ops::tanh);
  op(m, "sigmoid(x)", ops::sigmoid);
  op(m, "silu(x)", ops::silu);
  op<Floating, Number>(m, "leaky_relu(x, negative_slope)", ops::leaky_relu);
  op<Floating, Number>(m, "elu(x, alpha)", ops::elu);
  op<Floating, Number>(m, "softplus(x, beta)", ops::softplus);
  op(m, "gelu(x, approximate)", [](const Tensor& x, const std::string& approximate) {
    if (approximate != "none" && approximate != "tanh")
      fail_value("gelu: approximate must be 'none' or 'tanh' because these are the two forms; got '", approximate, "'");
    return ops::gelu(x, approximate == "tanh");
  });
}

}  // namespace qkv::bindings
