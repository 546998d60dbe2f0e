// A language model that only decodes: each token sees itself and those before it.
#pragma once

#include "models/decoding.h"
#include "nn/block.h"

namespace qkv::models {

struct CausalLMSizes {
  Index vocab_size = 0, d_model = 0, nhead = 1, num_layers = 1;
  std::optional<Index> num_kv_heads;     // nhead
  std::optional<Index> dim_feedforward;  // 4 d_model
  double dropout = 0, rotary_base = 10000, norm_eps = 1e-6;
};

template <nn::FieldsOf<CausalLMSizes> Sizes, class F> void for_fields(Sizes& s, F field) {
  field("vocab_size", s.vocab_size);
  field("d_model", s.d_model);
  field("nhead", s.nhead);
  field("num_layers", s.num_layers);
  field("num_kv_heads", s.num_kv_heads);
  field("dim_feedforward", s.dim_feedforward);
  field("dropout", s.dropout);
  field("rotary_base", s.rotary_base);
  field("norm_eps", s.norm_eps);
}

// x + attention(norm1(x)), then x + linear2(gelu(linear1(norm2(x)))).
class CausalLMLayer : public nn::Block {
 public:
  explicit CausalLMLayer(const CausalLMSizes& sizes);
  std::string class_name() const override { return "CausalLMLayer"; }
  nn::Config config() const override;
  using Block::forward;
};

class CausalLM : public nn::Module {
 public:
  // `split`: whose ranks hold the parts of the sequences.
  explicit CausalLM(const CausalLMSizes& sizes, const std::shared_ptr<const nn::SplitSequence>& split = nullptr);
  std::string class_name() const override { return "CausalLM"; }
  nn::Config config() const override;
  using Module::forward;

  // ids (B, T) to logits (B, T, V); with a cache, ids follow what it holds.
  virtual Tensor forward(const Array& ids, const Array& valid_lens, nn::ModelCache* cache = nullptr);
  std::vector<std::shared_ptr<nn::Block>> parts() const { return nn::blocks_of<CausalLMLayer>(*this, *layers); }
  // Continues prompts (B, T) after their last token, with which the first step is made.
  std::unique_ptr<Continuation> continuation(const Array& prompts);

  const CausalLMSizes sizes;
  std::shared_ptr<nn::Embedding> embedding;
  std::shared_ptr<nn::ModuleList> layers;
  std::shared_ptr<nn::RMSNorm> norm;
  std::shared_ptr<nn::Linear> output;
};

}  // namespace qkv::models
