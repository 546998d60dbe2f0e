#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_softmax(Functions& m) {
  const auto plain = [&](const char* name, Tensor (*f)(const Tensor&, Index, double)) {
    m.def(text(name, "(x, axis, temperature)"), [name, f](py::handle x, Index axis, double temperature) {
      Call call(name);
      const Tensor input = call.floating(x, "x");
      return call.result(without_gil(input.numel(), [&] { return f(input, axis, temperature); }));
    });
  };
  plain("softmax", ops::softmax);
  plain("log_softmax", ops::log_softmax);
  m.def("entmax(x, alpha, axis)", [](py::handle x, double alpha, Index axis) {
    Call call(alpha == 2 ? "sparsemax" : "entmax");
    const Tensor input = call.floating(x, "x");
    return call.result(without_gil(input.numel(), [&] { return ops::entmax(input, alpha, axis); }));
  });
  m.def("masked_softmax(scores, valid_lens, mask, masked_value)",
        [](py::handle scores, py::handle valid_lens, py::handle mask, std::optional<double> masked_value) {
          Call call("masked_softmax"), aside("masked_softmax");  // the mask has no say in the result's dtype
          const Tensor input = call.floating(scores, "scores");
          ops::AttentionOptions o;
          o.operation = call.operation();
          o.valid_lens = call.integers(valid_lens, "valid_lens");
          if (!mask.is_none()) o.attn_mask = aside.any(mask, "mask");
          o.names.attn_mask = "mask";
          o.masked_value = masked_value;
          warn_of_swapped(o.operation, o, input.rank() == 0 ? 0 : input.dim(-1));
          if (aside.any_tensor()) call.force_tensor();
          return call.result(without_gil(input.numel(), [&] { return ops::masked_softmax(input, o); }));
        });
  m.def("softmax_jacobian(x)", [](py::handle x) {
    Call call("softmax_jacobian");
    const Tensor input = call.floating(x, "x");
    return call.result(without_gil(input.numel(), [&] { return ops::softmax_jacobian(input); }));
  });
}

}  // namespace qkv::bindings
