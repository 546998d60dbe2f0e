#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "ops/ops.h"

namespace qkv::bindings {

static ops::Reduction reduction(Call& call, py::handle value, const char* name) {
  const std::string given = string_from(value, call.operation(), name);
  if (given == "batchmean" && std::string_view(call.operation()) == "kl_div") return ops::Reduction::batchmean;
  return ops::reduction_named(call.operation(), given);
}
using Reduction = As<reduction>;

void bind_loss(Functions& m) {
  op<Floating, Integers, FloatingOrNone, Index, double, Reduction>(
      m, "cross_entropy(logits, targets, weight, ignore_index, label_smoothing, reduction)", ops::cross_entropy);
  op<Floating, Integers, FloatingOrNone, Index, Reduction>(
      m, "nll_loss(log_probs, targets, weight, ignore_index, reduction)", ops::nll_loss);
  op<Floating, Floating, Reduction>(m, "mse(predictions, targets, reduction)", ops::mse);
  op<Floating, Floating, Reduction>(m, "l1(predictions, targets, reduction)", ops::l1);
  op<Floating, Floating, Number, Reduction>(
      m, "huber(predictions, targets, delta, reduction)",
      py::overload_cast<const Tensor&, const Tensor&, double, ops::Reduction>(ops::huber));
  op<Floating, Number>(m, "huber_of(difference, delta)", py::overload_cast<const Tensor&, double>(ops::huber));
  op<Floating, Floating, FloatingOrNone, FloatingOrNone, Reduction>(
      m, "binary_cross_entropy_with_logits(logits, targets, weight, pos_weight, reduction)", ops::binary_cross_entropy);
  op<Floating, Floating, bool, Reduction>(m, "kl_div(log_probs, targets, log_targets, reduction)", ops::kl_divergence);
}

}  // namespace qkv::bindings
