#include "models/causal_lm.h"

#include <cmath>
#include <span>

#include "core/error.h"
#include "core/parallel.h"
#include "nn/init.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

const CausalLMSizes& checked(const char* model, const CausalLMSizes& s) {
  const auto positive = [model](const char* name, Index value) {
    if (value < 1) fail_value(model, ": ", name, " must be at least 1; got ", value);
  };
  positive("vocab_size", s.vocab_size);
  positive("d_model", s.d_model);
  positive("nhead", s.nhead);
  positive("num_layers", s.num_layers);
  positive("dim_feedforward", s.dim_feedforward.value_or(1));
  positive("num_kv_heads", s.num_kv_heads.value_or(1));
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
  CausalContinuation(CausalLM& model, const Array& prompts)
      : model_(model), caches_(static_cast<std::size_t>(model.sizes.num_layers)) {
    for (auto& cache : caches_) {
      cache = std::make_shared<nn::KVCache>();
      pointers_.push_back(cache.get());
    }
    const Index batches = prompts.dim(0), length = prompts.dim(1);
    if (length == 1) return;
    Array before({batches, length - 1}, DType::int64);
    for (Index b = 0; b < batches; ++b)
      std::copy_n(prompts.data<std::int64_t>() + b * length, length - 1,
                  before.data<std::int64_t>() + b * (length - 1));
    model_.forward(before, {}, pointers_);
  }

  Array step(const Array& tokens) override {
    const NoGrad off;
    const Tensor logits = model_.forward(tokens.reshaped({tokens.numel(), 1}), {}, pointers_);
    return packed(logits.data()).reshaped({tokens.numel(), model_.sizes.vocab_size});
  }

  void reorder(const Array& indices) override {
    for (auto& cache : caches_) cache->reorder(indices);
  }

 private:
  CausalLM& model_;
  std::vector<std::shared_ptr<nn::KVCache>> caches_;  // a layer of Python's may keep one
  std::vector<nn::KVCache*> pointers_;
};

}  // namespace

CausalLMLayer::CausalLMLayer(const CausalLMSizes& s) : sizes(checked("CausalLMLayer", s)) {
  nn::MultiHeadAttention::Arguments attention;
  attention.embed_dim = s.d_model;
  attention.num_heads = s.nhead;
  attention.num_kv_heads = s.num_kv_heads;
  attention.dropout = s.dropout;
  attention.bias = false;
  attention.causal = ops::Causal::upper_left;
  attention.rotary_base = s.rotary_base;
  const Index inner = s.dim_feedforward.value_or(4 * s.d_model);
  own_module("norm1", norm1, std::make_shared<nn::RMSNorm>(Shape{s.d_model}, s.norm_eps));
  own_module("self_attn", self_attn, std::make_shared<nn::MultiHeadAttention>(attention));
  own_module("norm2", norm2, std::make_shared<nn::RMSNorm>(Shape{s.d_model}, s.norm_eps));
  own_module("linear1", linear1, std::make_shared<nn::Linear>(s.d_model, inner, false));
  own_module("linear2", linear2, std::make_shared<nn::Linear>(inner, s.d_model, false));
  own_module("dropout", dropout, std::make_shared<nn::Dropout>(s.dropout));
}

Tensor CausalLMLayer::forward(const Tensor& given, const nn::Restriction& restriction, nn::KVCache* cache) {
  const Tensor input = nn::as_dtype_of(given, linear1->weight);
  nn::MultiHeadAttention::Call call;
  call.restriction = restriction;
  call.cache = cache;
  const Tensor attended = self_attn->forward(norm1->forward(input), Tensor(), Tensor(), call);
  const Tensor x = nn::residual("CausalLMLayer", "self_attn and dropout", input, dropout->forward(attended));
  const Tensor inner = linear2->forward(linear1->forward(norm2->forward(x), kernels::Activation::gelu));
  return nn::residual("CausalLMLayer", "linear1, linear2 and dropout", x, dropout->forward(inner));
}

CausalLM::CausalLM(const CausalLMSizes& s) : sizes(checked("CausalLM", s)) {
  own_module("embedding", embedding, std::make_shared<nn::Embedding>(s.vocab_size, s.d_model));
  auto list = std::make_shared<nn::ModuleList>();
  for (Index i = 0; i < s.num_layers; ++i) list->append(std::make_shared<CausalLMLayer>(s));
  own_module("layers", layers, std::move(list));
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

nn::Config CausalLMLayer::config_of(const CausalLMSizes& sizes) {
  return {{"d_model", sizes.d_model},
          {"nhead", sizes.nhead},
          {"num_kv_heads", sizes.num_kv_heads.value_or(sizes.nhead)},
          {"dim_feedforward", sizes.dim_feedforward.value_or(4 * sizes.d_model)},
          {"dropout", sizes.dropout},
          {"rotary_base", sizes.rotary_base},
          {"norm_eps", sizes.norm_eps}};
}

nn::Config CausalLM::config() const {
  nn::Config config = CausalLMLayer::config_of(sizes);
  config.insert(config.begin(), {"vocab_size", sizes.vocab_size});
  config.insert(config.begin() + 3, {"num_layers", sizes.num_layers});
  return config;
}

std::vector<std::shared_ptr<CausalLMLayer>> CausalLM::parts() const {
  std::vector<std::shared_ptr<CausalLMLayer>> found;
  const auto entries = layers->snapshot();
  for (const Entry& entry : *entries) {
    auto layer = std::dynamic_pointer_cast<CausalLMLayer>(entry.module);
    if (!layer)
      fail_type("CausalLM: layers must hold CausalLMLayers; got ", entry.module ? entry.module->class_name() : "None");
    found.push_back(std::move(layer));
  }
  return found;
}

Tensor CausalLM::forward(const Array& ids, const Array& valid_lens, std::span<nn::KVCache* const> caches) {
  if (ids.rank() != 2) fail_value("CausalLM: ids must be (B, T); got ids ", ids.shape());
  const auto all = parts();
  if (!caches.empty() && caches.size() != all.size())
    fail_value("CausalLM: cache must hold one KVCache for each of the ", all.size(), " layers; got ", caches.size());
  nn::Restriction restriction;
  restriction.valid_lens = valid_lens;
  Tensor x = embedding->forward_ids(ids);
  for (std::size_t i = 0; i < all.size(); ++i) {
    throw_if_interrupted();
    x = all[i]->forward(x, restriction, caches.empty() ? nullptr : caches[i]);
  }
  return output->forward(norm->forward(x));
}

std::unique_ptr<Continuation> CausalLM::continuation(const Array& prompts) {
  if (prompts.rank() != 2 || prompts.dim(1) < 1)
    fail_value("CausalLM: ids must be (B, T) with at least one token; got ids ", prompts.shape());
  const NoGrad off;
  return std::make_unique<CausalContinuation>(*this, prompts);
}

}  // namespace qkv::models
