#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_loss(Functions& m) {
  m.def(
      "cross_entropy(logits, targets, weight, ignore_index, label_smoothing, reduction)",
      [](py::handle logits, py::handle targets, py::handle weight, Index ignore_index, double label_smoothing,
         const std::string& reduction) {
        Call call("cross_entropy");
        const Tensor x = call.floating(logits, "logits"), w = call.optional(weight, "weight");
        const Array t = call.integers(targets, "targets", false);
        const ops::Reduction r = ops::reduction_named("cross_entropy", reduction);
        return call.result(without_gil([&] { return ops::cross_entropy(x, t, w, ignore_index, label_smoothing, r); }));
      });
  m.def("nll_loss(log_probs, targets, weight, ignore_index, reduction)",
        [](py::handle log_probs, py::handle targets, py::handle weight, Index ignore_index,
           const std::string& reduction) {
          Call call("nll_loss");
          const Tensor x = call.floating(log_probs, "log_probs"), w = call.optional(weight, "weight");
          const Array t = call.integers(targets, "targets", false);
          const ops::Reduction r = ops::reduction_named("nll_loss", reduction);
          return call.result(without_gil([&] { return ops::nll_loss(x, t, w, ignore_index, r); }));
        });
  const auto of_two = [&](const char* name, Tensor (*f)(const Tensor&, const Tensor&, ops::Reduction)) {
    m.def(text(name, "(predictions, targets, reduction)"),
          [name, f](py::handle predictions, py::handle targets, const std::string& reduction) {
            Call call(name);
            const Tensor x = call.floating(predictions, "predictions"), t = call.floating(targets, "targets");
            const ops::Reduction r = ops::reduction_named(name, reduction);
            return call.result(without_gil([&] { return f(x, t, r); }));
          });
  };
  of_two("mse", ops::mse);
  of_two("l1", ops::l1);
  m.def("huber(predictions, targets, delta, reduction)",
        [](py::handle predictions, py::handle targets, py::handle delta, const std::string& reduction) {
          Call call("huber");
          const Tensor x = call.floating(predictions, "predictions"), t = call.floating(targets, "targets");
          const double limit = required_number_from(delta, "huber", "delta");
          const ops::Reduction r = ops::reduction_named("huber", reduction);
          return call.result(without_gil([&] { return ops::huber(x, t, limit, r); }));
        });
  m.def("binary_cross_entropy_with_logits(logits, targets, weight, pos_weight, reduction)",
        [](py::handle logits, py::handle targets, py::handle weight, py::handle pos_weight,
           const std::string& reduction) {
          Call call("binary_cross_entropy_with_logits");
          const Tensor x = call.floating(logits, "logits"), t = call.floating(targets, "targets");
          const Tensor w = call.optional(weight, "weight"), p = call.optional(pos_weight, "pos_weight");
          const ops::Reduction r = ops::reduction_named("binary_cross_entropy_with_logits", reduction);
          return call.result(without_gil([&] { return ops::binary_cross_entropy(x, t, w, p, r); }));
        });
  m.def("kl_div(log_probs, targets, log_targets, reduction)",
        [](py::handle log_probs, py::handle targets, bool log_targets, const std::string& reduction) {
          Call call("kl_div");
          const Tensor x = call.floating(log_probs, "log_probs"), t = call.floating(targets, "targets");
          const ops::Reduction r =
              reduction == "batchmean" ? ops::Reduction::batchmean : ops::reduction_named("kl_div", reduction);
          return call.result(without_gil([&] { return ops::kl_divergence(x, t, log_targets, r); }));
        });
}

}  // namespace qkv::bindings
