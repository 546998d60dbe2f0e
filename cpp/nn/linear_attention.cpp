#include "nn/linear_attention.h"

#include "core/error.h"

namespace qkv::nn {
namespace {

constexpr const char* kLinearAttention = "LinearAttention";
// Decays are log(sigmoid(z)) / 16: a state lasts some dozens of steps at first (Yang et al., 2023, section 4.4).
constexpr double kDecayTemperature = 16;

Index checked_kv_heads(Index embed_dim, Index heads, std::optional<Index> kv_heads) {
  check_positive(kLinearAttention,
                 {{"embed_dim", embed_dim}, {"num_heads", heads}, {"num_kv_heads", kv_heads.value_or(heads)}});
  if (embed_dim % heads != 0)
    fail_value(kLinearAttention, ": embed_dim must be a multiple of num_heads; got embed_dim = ", embed_dim,
               ", num_heads = ", heads);
  if (heads % kv_heads.value_or(heads) != 0)
    fail_value(kLinearAttention, ": num_heads must be a multiple of num_kv_heads; got num_heads = ", heads,
               ", num_kv_heads = ", *kv_heads);
  return kv_heads.value_or(heads);
}

// (B, H, T, size) of (B, T, H size); (B, H, T) where there is no size.
Tensor by_head(const Tensor& x, Index heads) {
  return ops::transpose(ops::reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

}  // namespace

LinearAttention::LinearAttention(Index width, Index heads, const std::string& rule, std::optional<Index> kv_heads,
                                 bool with_bias)
    : embed_dim(width),
      num_heads(heads),
      update_rule(ops::update_rule_named(kLinearAttention, rule)),
      num_kv_heads(checked_kv_heads(width, heads, kv_heads)),
      bias(with_bias) {
  const Index shared = width / heads * num_kv_heads;
  const auto own = [&](const char* name, std::shared_ptr<Linear>& layer, Index size) {
    own_module(name, layer, std::make_shared<Linear>(width, size, bias));
  };
  own("q_proj", q_proj, width);
  own("k_proj", k_proj, shared);
  own("v_proj", v_proj, shared);
  if (ops::decays(update_rule)) own("decay_proj", decay_proj, num_kv_heads);
  if (ops::corrects(update_rule)) own("beta_proj", beta_proj, num_kv_heads);
  own("out_proj", out_proj, width);
}

Config LinearAttention::config() const {
  return {{"embed_dim", embed_dim},
          {"num_heads", num_heads},
          {"update_rule", std::string(ops::name_of(update_rule))},
          {"num_kv_heads", num_kv_heads},
          {"bias", bias}};
}

LinearAttention::Output LinearAttention::forward(const Tensor& x, const Tensor& state) {
  if (const Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return LinearAttention::forward(y, state); },
                     {&Output::output, &Output::state});
  if (x.rank() != 3 || x.dim(2) != embed_dim)
    fail_value(kLinearAttention, ": x must be (B, T, ", embed_dim, ") because embed_dim = ", embed_dim, "; got x ",
               x.shape());
  const Watch watch(*this);
  const Tensor q = watch.through(Point::queries, by_head(q_proj->forward(x), num_heads)),
               v = watch.through(Point::values, by_head(v_proj->forward(x), num_kv_heads));
  Tensor k = by_head(k_proj->forward(x), num_kv_heads), decay, beta;
  const auto per_head = [&](Linear& layer) { return ops::transpose(layer.forward(x), {0, 2, 1}); };
  // log(sigmoid(z)) is -softplus(-z).
  if (decay_proj) decay = ops::scaled(ops::softplus(ops::negative(per_head(*decay_proj)), 1), -1 / kDecayTemperature);
  if (beta_proj) {
    beta = ops::sigmoid(per_head(*beta_proj));
    k = ops::normalize(k, 2, ops::Axes{-1}, 1e-6);
  }
  ops::LinearAttentionOptions options;
  options.rule = update_rule;
  k = watch.through(Point::keys, k);
  const Output y = ops::linear_attention(q, k, v, decay, beta, state, options);
  const Tensor heads = ops::reshape(ops::transpose(watch.through(Point::heads, y.output), {0, 2, 1, 3}), x.shape());
  return {out_proj->forward(heads), y.state};
}

}  // namespace qkv::nn
