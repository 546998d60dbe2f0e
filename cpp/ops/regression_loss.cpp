// Losses of two arrays of equal shape, of recorded operations.
#include "ops/ops.h"

namespace qkv::ops {
namespace {

void check_alike(const char* operation, const char* name, const Tensor& x, const Tensor& targets) {
  if (x.shape() != targets.shape())
    fail_value(operation, ": targets must be ", x.shape(), " to match ", name, "; got targets ", targets.shape());
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  const Tensor total = sum(losses);
  if (reduction == Reduction::sum || losses.numel() == 0) return total;
  const Index count = reduction == Reduction::batchmean && losses.rank() > 0 ? losses.dim(0) : losses.numel();
  return divide(total, scalar_like(total, static_cast<double>(count)));
}

Tensor difference(const char* operation, const Tensor& predictions, const Tensor& targets) {
  check_alike(operation, "predictions", predictions, targets);
  return subtract(floating(predictions), floating(targets));
}

// `factors`, which are undefined or broadcast to the losses.
Tensor weighted(const char* name, const Tensor& losses, const Tensor& factors) {
  if (!factors.defined()) return losses;
  Shape shape;
  if (!broadcast(factors.shape(), losses.shape(), shape) || shape != losses.shape())
    fail_value("binary_cross_entropy_with_logits: ", name, " must broadcast to logits ", losses.shape(), "; got ", name,
               " ", factors.shape());
  return multiply(losses, factors);
}

}  // namespace

Tensor mse(const Tensor& predictions, const Tensor& targets, Reduction reduction) {
  const Tensor d = difference("mse", predictions, targets);
  return reduced(multiply(d, d), reduction);
}

Tensor l1(const Tensor& predictions, const Tensor& targets, Reduction reduction) {
  return reduced(unary(Unary::absolute, difference("l1", predictions, targets)), reduction);
}

Tensor huber(const Tensor& predictions, const Tensor& targets, double delta, Reduction reduction) {
  return reduced(huber(difference("huber", predictions, targets), delta), reduction);
}

// -t log sigmoid(x) - (1 - t) log sigmoid(-x), each logarithm as a softplus: all digits of small losses.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& targets, const Tensor& weight, const Tensor& pos_weight,
                            Reduction reduction) {
  check_alike("binary_cross_entropy_with_logits", "logits", input, targets);
  const Tensor x = floating(input), t = floating(targets), one = scalar_like(t, 1);
  const Tensor hits = weighted("pos_weight", multiply(t, softplus(unary(Unary::negate, x), 1)), pos_weight);
  const Tensor losses = add(hits, multiply(subtract(one, t), softplus(x, 1)));
  return reduced(weighted("weight", losses, weight), reduction);
}

// t (log t - x), where t = 0 costs nothing; of log t given, e^t (t - x).
Tensor kl_divergence(const Tensor& log_probs, const Tensor& targets, bool log_targets, Reduction reduction) {
  check_alike("kl_div", "log_probs", log_probs, targets);
  const Tensor x = floating(log_probs), t = floating(targets);
  if (log_targets) return reduced(multiply(unary(Unary::exponential, t), subtract(t, x)), reduction);
  const Tensor none = compare(Compare::equal, t, scalar_like(t, 0));
  const Tensor logarithm = unary(Unary::logarithm, where(none, scalar_like(t, 1), t));
  return reduced(where(none, scalar_like(x, 0), multiply(t, subtract(logarithm, x))), reduction);
}

}  // namespace qkv::ops
