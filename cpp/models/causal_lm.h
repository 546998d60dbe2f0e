// A language model that only decodes: each token sees itself and those before it.
#pragma once

#include "models/decoding.h"
#include "nn/multi_head_attention.h"

namespace qkv::models {

struct CausalLMSizes {
  Index vocab_size = 0, d_model = 0, nhead = 1, num_layers = 1;
  std::optional<Index> num_kv_heads;     // nhead
  std::optional<Index> dim_feedforward;  // 4 d_model
  double dropout = 0, rotary_base = 10000, norm_eps = 1e-6;
};

// x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))).
class CausalLMLayer : public nn::Module {
 public:
  explicit CausalLMLayer(const CausalLMSizes& sizes);
  std::string class_name() const override { return "CausalLMLayer"; }
  nn::Config config() const override { return config_of(sizes); }
  static nn::Config config_of(const CausalLMSizes& sizes);
  Tensor forward(const Tensor& x) override { return CausalLMLayer::forward(x, {}, nullptr); }
  virtual Tensor forward(const Tensor& x, const nn::Restriction& restriction, nn::KVCache* cache);

  const CausalLMSizes sizes;
  std::shared_ptr<nn::RMSNorm> norm1, norm2;
  std::shared_ptr<nn::MultiHeadAttention> self_attn;
  std::shared_ptr<nn::Linear> linear1, linear2;
  std::shared_ptr<nn::Dropout> dropout;
};

class CausalLM : public nn::Module {
 public:
  explicit CausalLM(const CausalLMSizes& sizes);
  std::string class_name() const override { return "CausalLM"; }
  nn::Config config() const override;
  using Module::forward;

  // ids (B, T) to logits (B, T, V). `caches` is empty or has one for each layer; ids then follow what they hold.
  virtual Tensor forward(const Array& ids, const Array& valid_lens, std::span<nn::KVCache* const> caches = {});
  std::vector<std::shared_ptr<CausalLMLayer>> parts() const;
  // Continues prompts (B, T) behind their last token, with which the first step is made.
  std::unique_ptr<Continuation> continuation(const Array& prompts);

  const CausalLMSizes sizes;
  std::shared_ptr<nn::Embedding> embedding;
  std::shared_ptr<nn::ModuleList> layers;
  std::shared_ptr<nn::RMSNorm> norm;
  std::shared_ptr<nn::Linear> output;
};

}  // namespace qkv::models
