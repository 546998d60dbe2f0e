// The body of a model: embeddings, blocks one after the other, a norm. Encoders, causal decoders, both halves of an
// encoder-decoder and vision transformers are choices of its options; what is on top is made elsewhere.
#pragma once

#include "models/padded_rows.h"
#include "nn/block.h"
#include "nn/disentangled.h"

namespace qkv::models {

// A block under neutral names, with every option.
class TransformerBlock : public nn::Block {
 public:
  explicit TransformerBlock(const nn::BlockOptions& options);
  std::string class_name() const override { return "TransformerBlock"; }
  nn::Config config() const override;
  using Block::forward;
};

// What a block is that is told nothing.
nn::BlockOptions block_defaults();

// What numbers the rows of a sequence: their places, the count of tokens that the mask keeps, or of ids but pad_id, of
// which padding is one before the first.
enum class PositionRule { rows, mask, ids };

struct BodyOptions {
  Index d_model = 0;
  std::optional<Index> vocab_size = {};      // without: inputs (B, L, M) instead of ids
  std::optional<Index> embedding_size = {};  // of the tables, projected to d_model if it is another
  double embedding_scale = 1;                // of what is in the table of ids
  std::optional<Index> pad_id = {};
  Index max_positions = 0, position_offset = 0;  // a table of so many positions, of which the offset is the first
  bool sinusoidal = false;                       // it is not learned: sines, then cosines
  PositionRule position_rule = PositionRule::rows;
  Index type_vocab_size = 0;
  std::optional<nn::NormKind> embedding_norm = {}, final_norm = {};
  double norm_eps = 1e-5;
  bool norm_bias = true;
  double dropout = 0;                                  // of the embeddings
  std::optional<nn::RelativeBias> relative_bias = {};  // one table for all layers
  std::optional<nn::Disentangled> disentangled = {};   // likewise
  bool relative_norm = false;                          // after its table
  nn::PartNames names = {};                            // with some, dropout and layers only where they have one
};
template <nn::FieldsOf<BodyOptions> Options, class F> void for_fields(Options& o, F field) {
  field("d_model", o.d_model);
  field("vocab_size", o.vocab_size);
  field("embedding_size", o.embedding_size);
  field("embedding_scale", o.embedding_scale);
  field("pad_id", o.pad_id);
  field("max_positions", o.max_positions);
  field("position_offset", o.position_offset);
  field("sinusoidal", o.sinusoidal);
  field("position_rule", o.position_rule);
  field("type_vocab_size", o.type_vocab_size);
  field("embedding_norm", o.embedding_norm);
  field("final_norm", o.final_norm);
  field("norm_eps", o.norm_eps);
  field("norm_bias", o.norm_bias);
  field("dropout", o.dropout);
  field("relative_bias", o.relative_bias);
  field("disentangled", o.disentangled);
  field("relative_norm", o.relative_norm);
  field("names", o.names);
}
const char* name_of(PositionRule rule);
inline nn::Value value_of(PositionRule rule) { return std::string(name_of(rule)); }
PositionRule position_rule_named(const char* owner, const std::string& name);

class TransformerBody : public nn::Module {
 public:
  struct Input {
    Array ids;      // (B, L), or
    Tensor inputs;  // (B, L, M)
    // The mask counts keys, those of a cache, too; undefined ones say nothing.
    Array attention_mask, valid_lens, types;
    Tensor memory = {};  // (B, Ls, M)
    Array memory_mask = {}, memory_lens = {};
    bool skip_padding = false;
  };

  TransformerBody(const BodyOptions& options, const std::vector<nn::BlockOptions>& layers);
  std::string class_name() const override { return "TransformerBody"; }
  nn::Config config() const override;
  using Module::forward;
  // (B, L, M). `states` gets the embeddings and what each layer gave.
  Tensor forward(const Input& input, nn::ModelCache* cache = nullptr, Tensors* states = nullptr);
  Index embedding_width() const { return options.embedding_size.value_or(options.d_model); }
  std::vector<std::shared_ptr<nn::Block>> parts() const {
    return layers ? nn::blocks_of<nn::Block>(*this, *layers, options.names.of("layers").c_str())
                  : std::vector<std::shared_ptr<nn::Block>>();
  }

  const BodyOptions options;
  std::shared_ptr<nn::Embedding> embedding, position_embedding, type_embedding, relative_bias, relative_embedding;
  std::shared_ptr<nn::Norm> embedding_norm, relative_norm;
  std::shared_ptr<nn::Linear> embedding_projection;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::ModuleList> layers;
  std::shared_ptr<nn::Norm> norm;

 private:
  // int64 (L,) or (B, L): of each row, from 0.
  Array positions(const Input& input, const PaddedRows& rows, Index before) const;
  Tensor embedded(const Input& input, const PaddedRows& rows, const Array& positions);
  Tensor position_rows(const Array& positions);
  void check(const Input& input) const;

  const Array sines_;  // (max_positions, M)
};

}  // namespace qkv::models
