#include "nn/self_attention.h"

#include <cmath>

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::nn {

Value causal_value(ops::Causal causal) {
  if (causal == ops::Causal::lower_right) return std::string("lower_right");
  return causal == ops::Causal::upper_left;
}

SelfAttention::SelfAttention(Index in, Index out, bool bias, std::optional<double> scale, double dropout,
                             ops::Causal causal, std::optional<double> masked_value)
    : in_features(in),
      out_features(out),
      scale_(scale),
      dropout_(dropout),
      causal_(causal),
      masked_value_(masked_value) {
  if (in < 1 || out < 1)
    fail_value("SelfAttention: in_features and out_features must be at least 1; got in_features = ", in,
               ", out_features = ", out);
  if (scale && !std::isfinite(*scale)) fail_value("SelfAttention: scale must be a finite number; got ", *scale);
  checked_probability("SelfAttention", "dropout", dropout);
  own_module("q_proj", q_proj, std::make_shared<Linear>(in, out, bias));
  own_module("k_proj", k_proj, std::make_shared<Linear>(in, out, bias));
  own_module("v_proj", v_proj, std::make_shared<Linear>(in, out, bias));
}

Config SelfAttention::config() const {
  const auto number = [](std::optional<double> x) { return x ? Value(*x) : Value(); };
  return {{"in_features", in_features},
          {"out_features", out_features},
          {"bias", q_proj->bias.defined()},
          {"scale", number(scale_)},
          {"dropout", dropout_},
          {"is_causal", causal_value(causal_)},
          {"masked_value", number(masked_value_)}};
}

Tensor SelfAttention::forward(const Tensor& x, const Tensor& context, const Restriction& given, Tensor* weights) {
  const Batched from = batched("SelfAttention", "x", x);
  const Batched to = context.defined() ? batched("SelfAttention", "context", context) : from;
  if (to.tensor.dim(0) != from.tensor.dim(0))
    fail_value("SelfAttention: context must have the batch size of x ", x.shape(), "; got context ", context.shape());
  const AttentionRecord::Axes axes{!from.added, false};
  const Restriction restriction =
      aligned("SelfAttention", given, {from.tensor.dim(0), from.tensor.dim(1), to.tensor.dim(1)}, axes);
  const Tensor q = q_proj->forward(from.tensor);  // (B, Lq, D)
  const Tensor k = k_proj->forward(to.tensor);    // (B, Lk, D)
  const Tensor v = v_proj->forward(to.tensor);    // (B, Lk, D)
  ops::AttentionOptions o;
  o.operation = "SelfAttention";
  set_restriction(o, restriction, dropout_, training());
  o.causal = causal_;
  o.scale = scale_;
  o.masked_value = masked_value_;
  o.return_weights = weights != nullptr;
  const ops::AttentionOutputs outputs = ops::packed_attention(q, k, v, {}, o);
  if (weights != nullptr) *weights = shown_weights(outputs.weights, axes);
  record.keep(AttentionRecord::of(packed(q.data()), packed(k.data()), {}, o, axes));
  return unbatched(outputs.output, from.added);
}

}  // namespace qkv::nn
