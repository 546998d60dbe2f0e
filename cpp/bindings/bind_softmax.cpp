#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "ops/entmax.h"

namespace qkv::bindings {

void bind_softmax(Functions& m) {
  op(m, "softmax(x, axis, temperature)", ops::softmax);
  op(m, "log_softmax(x, axis, temperature)", ops::log_softmax);
  op(m, "softmax_jacobian(x)", ops::softmax_jacobian);
  op<Floating, double, Index>(m, "entmax(x, alpha, axis)",
                              [](const Tensor& x, double alpha, Index axis) { return ops::entmax(x, alpha, axis); });
  op(m, "sparsemax(x, axis)", [](const Tensor& x, Index axis) { return ops::entmax("sparsemax", x, 2, axis); });
  // The mask has no say in the result's dtype.
  op<Floating, IntegersOrNone, py::handle, std::optional<double>>(
      m, "masked_softmax(scores, valid_lens, mask, masked_value)",
      [](const Tensor& scores, const Array& valid_lens, py::handle mask, std::optional<double> masked_value,
         Call& call) {
        ops::AttentionOptions o;
        o.operation = call.operation();
        o.valid_lens = valid_lens;
        o.attn_mask = call.mask(mask, "mask");
        o.names.attn_mask = "mask";
        o.masked_value = masked_value;
        warn_of_swapped(o.operation, o, scores.rank() == 0 ? 0 : scores.dim(-1));
        return without_gil(scores.numel(), [&] { return ops::masked_softmax(scores, o); });
      });
}

}  // namespace qkv::bindings
