#include "models/causal_lm.h"

#include <cmath>

#include "core/error.h"
#include "nn/init.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

const CausalLMSizes& checked(const char* model, const CausalLMSizes& s) {
  nn::check_positive(model, {{"vocab_size", s.vocab_size},
                             {"d_model", s.d_model},
                             {"nhead", s.nhead},
                             {"num_layers", s.num_layers},
                             {"dim_feedforward", s.dim_feedforward},
                             {"num_kv_heads", s.num_kv_heads}});
  if (s.d_model % s.nhead != 0 || s.d_model / s.nhead % 2 != 0)
    fail_value(model,
               ": d_model must be divisible by nhead into heads of even size, because rotary positions turn pairs of "
               "features; got d_model = ",
               s.d_model, ", nhead = ", s.nhead);
  if (s.nhead % s.num_kv_heads.value_or(s.nhead) != 0)
    fail_value(model, ": nhead must be divisible by num_kv_heads; got nhead = ", s.nhead,
               ", num_kv_heads = ", *s.num_kv_heads);
  nn::checked_probability(model, "dropout", s.dropout);
  return s;
}

class CausalContinuation : public Continuation {
 public:
  CausalContinuation(CausalLM& model, const Array& prompts) : model_(model), cache_(model.parts().size()) {
    const Index length = prompts.dim(1);
    if (length > 1) model_.forward(packed(ops::slice(Tensor(prompts), 1, 0, length - 1).data()), {}, &cache_);
  }

  Array step(const Array& tokens) override {
    const NoGrad off;
    const Tensor logits = model_.forward(tokens.reshaped({tokens.numel(), 1}), {}, &cache_);
    return packed(logits.data()).reshaped({tokens.numel(), model_.sizes.vocab_size});
  }

  void reorder(const Array& indices) override { cache_.reorder(indices); }

 private:
  CausalLM& model_;
  nn::ModelCache cache_;
};

constexpr nn::BlockNames kNames{"CausalLMLayer",
                                "x",
                                {"norm1", "self_attn", "norm2", "linear1", "linear2", "dropout"},
                                {"self_attn and dropout", "linear1, linear2 and dropout"}};

nn::BlockOptions block_options(const CausalLMSizes& s) {
  nn::BlockOptions o{.inner = s.dim_feedforward.value_or(4 * s.d_model),
                     .dropout = s.dropout,
                     .activation = "gelu",
                     .norm = nn::NormKind::rms,
                     .norm_eps = s.norm_eps,
                     .placement = nn::Placement::pre,
                     .bias = false};
  o.attention.embed_dim = s.d_model;
  o.attention.num_heads = s.nhead;
  o.attention.num_kv_heads = s.num_kv_heads;
  o.attention.dropout = s.dropout;
  o.attention.bias = false;
  o.attention.causal = ops::Causal::upper_left;
  o.attention.scores.rotary_base = s.rotary_base;
  return o;
}

// What a layer and the model both say.
nn::Config config_of(const nn::BlockOptions& o) {
  const auto& a = o.attention;
  return {{"d_model", a.embed_dim},     {"nhead", a.num_heads}, {"num_kv_heads", a.num_kv_heads.value_or(a.num_heads)},
          {"dim_feedforward", o.inner}, {"dropout", o.dropout}, {"rotary_base", *a.scores.rotary_base},
          {"norm_eps", o.norm_eps}};
}

}  // namespace

CausalLMLayer::CausalLMLayer(const CausalLMSizes& s) : Block(kNames, block_options(checked("CausalLMLayer", s))) {}

nn::Config CausalLMLayer::config() const { return config_of(options); }

CausalLM::CausalLM(const CausalLMSizes& s, const std::shared_ptr<const nn::SplitSequence>& split)
    : sizes(checked("CausalLM", s)) {
  own_module("embedding", embedding, std::make_shared<nn::Embedding>(s.vocab_size, s.d_model));
  auto list = std::make_shared<nn::ModuleList>();
  for (Index i = 0; i < s.num_layers; ++i) list->append(std::make_shared<CausalLMLayer>(s));
  own_module("layers", layers, std::move(list));
  if (split)
    for (const auto& layer : parts())
      std::static_pointer_cast<nn::MultiHeadAttention>(layer->parts().self_attn)->split_sequence.set(split);
  own_module("norm", norm, std::make_shared<nn::RMSNorm>(Shape{s.d_model}, s.norm_eps));
  own_module("output", output, std::make_shared<nn::Linear>(s.d_model, s.vocab_size, false));
  if (nn::SkipInit::active()) return;
  // Two sublayers per layer add to one sum: their last matrices start smaller, so that the sum does not grow with
  // depth.
  for (const auto& [name, parameter] : named_parameters()) {
    if (parameter.rank() != 2) continue;
    const bool adds = name.ends_with("out_proj.weight") || name.ends_with("linear2.weight");
    nn::fill_normal(parameter.data(), 0, adds ? 0.02 / std::sqrt(2.0 * static_cast<double>(s.num_layers)) : 0.02);
  }
}

nn::Config CausalLM::config() const {
  nn::Config config = config_of(block_options(sizes));
  config.insert(config.begin(), {"vocab_size", sizes.vocab_size});
  config.insert(config.begin() + 3, {"num_layers", sizes.num_layers});
  return config;
}

Tensor CausalLM::forward(const Array& ids, const Array& valid_lens, nn::ModelCache* cache) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(ids), [&](const Tensor& y) { return CausalLM::forward(y.data(), valid_lens, cache); });
  if (ids.rank() != 2) fail_value("CausalLM: ids must be (B, T); got ids ", ids.shape());
  const auto blocks = parts();
  nn::CacheStep step(cache, "CausalLM", blocks.size());
  nn::BlockCall call;
  call.self.valid_lens = valid_lens;
  const Tensor x = nn::through(blocks, embedding->forward_ids(ids), Tensor(), call, cache);
  const Tensor logits = output->forward(norm->forward(x));
  step.commit();
  return logits;
}

std::unique_ptr<Continuation> CausalLM::continuation(const Array& prompts) {
  if (prompts.rank() != 2 || prompts.dim(1) < 1)
    fail_value("CausalLM: ids must be (B, T) with at least one token; got ids ", prompts.shape());
  const NoGrad off;
  return std::make_unique<CausalContinuation>(*this, prompts);
}

}  // namespace qkv::models
