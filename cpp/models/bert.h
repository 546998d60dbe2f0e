// BERT: a stack of self-attention layers over the sum of word, position and segment embeddings, with Hugging Face's
// names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/padded_rows.h"
#include "nn/transformer.h"

namespace qkv::models {

struct BertArguments {
  Index vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
        intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1;
  Index max_position_embeddings = 512, type_vocab_size = 2;
  double initializer_range = 0.02, layer_norm_eps = 1e-12;
  std::optional<Index> pad_token_id = 0;  // its row of the word embeddings is not learned
  bool add_pooling_layer = true;
};

// field(name, member) for each, in the order in which a configuration lists them.
template <class Arguments, class F> void for_fields(Arguments& a, F field) {
  field("vocab_size", a.vocab_size);
  field("hidden_size", a.hidden_size);
  field("num_hidden_layers", a.num_hidden_layers);
  field("num_attention_heads", a.num_attention_heads);
  field("intermediate_size", a.intermediate_size);
  field("hidden_act", a.hidden_act);
  field("hidden_dropout_prob", a.hidden_dropout_prob);
  field("attention_probs_dropout_prob", a.attention_probs_dropout_prob);
  field("max_position_embeddings", a.max_position_embeddings);
  field("type_vocab_size", a.type_vocab_size);
  field("initializer_range", a.initializer_range);
  field("layer_norm_eps", a.layer_norm_eps);
  field("pad_token_id", a.pad_token_id);
  field("add_pooling_layer", a.add_pooling_layer);
}

// Every part can be made from the arguments alone, which is how modules are copied and unpickled.
nn::Config bert_config(const BertArguments& arguments);
class BertPart : public nn::Module {
 public:
  explicit BertPart(const BertArguments& arguments);  // checks them
  nn::Config config() const override { return bert_config(arguments); }
  const BertArguments arguments;
};

// LayerNorm(word + position + segment), then dropout.
class BertEmbeddings : public BertPart {
 public:
  explicit BertEmbeddings(const BertArguments& arguments);
  std::string class_name() const override { return "BertEmbeddings"; }
  using Module::forward;
  // ids, segments int64 (B, L), segments may be undefined for zeros; (B, L, M), or (R, M) if rows are packed.
  virtual Tensor forward(const Array& ids, const Array& segments, const PaddedRows& rows);

  std::shared_ptr<nn::Embedding> word_embeddings, position_embeddings, token_type_embeddings;
  std::shared_ptr<nn::LayerNorm> norm;
  std::shared_ptr<nn::Dropout> dropout;

 protected:
  void adapt_state(nn::StateDict& state, const std::string& prefix) override;
};

// The attention of nn without an output projection, which is part of BertAttention's output.
class BertSelfAttention : public nn::MultiHeadAttention {
 public:
  explicit BertSelfAttention(const BertArguments& arguments);
  std::string class_name() const override { return "BertSelfAttention"; }
  nn::Config config() const override { return bert_config(bert); }
  using MultiHeadAttention::forward;
  const BertArguments bert;
};

// The block of nn under Hugging Face's names: attention.self, attention.output.dense, ...
class BertLayer : public nn::Block {
 public:
  explicit BertLayer(const BertArguments& arguments) : BertLayer(arguments, nn::SkipInit()) { draw(); }
  std::string class_name() const override { return "BertLayer"; }
  nn::Config config() const override { return bert_config(arguments); }
  using Block::forward;
  const BertArguments arguments;

 private:
  BertLayer(const BertArguments& arguments, const nn::SkipInit&);
  void draw();
};

class BertEncoder : public BertPart {
 public:
  explicit BertEncoder(const BertArguments& arguments);
  std::string class_name() const override { return "BertEncoder"; }
  using Module::forward;
  // `states` gets the output of each layer, whole.
  virtual Tensor forward(const Tensor& x, const PaddedRows& rows, Tensors* states = nullptr);

  std::vector<std::shared_ptr<nn::Block>> parts() const { return nn::blocks_of<BertLayer>(*this, *layer, "layer"); }
  std::shared_ptr<nn::ModuleList> layer;
};

// tanh(dense(first row)).
class BertPooler : public BertPart {
 public:
  explicit BertPooler(const BertArguments& arguments);
  std::string class_name() const override { return "BertPooler"; }
  Tensor forward(const Tensor& hidden) override;  // (B, L, M) to (B, M)
  std::shared_ptr<nn::Linear> dense;
};

class BertModel : public BertPart {
 public:
  struct Input {
    Array ids, valid_lens, attention_mask, segments;  // only the first must be defined
    bool skip_padding = false;
  };
  struct Output {
    Tensor last_hidden_state, pooler_output;  // (B, L, M), (B, M) or not defined
  };
  explicit BertModel(const BertArguments& arguments);
  std::string class_name() const override { return "BertModel"; }
  using Module::forward;
  // `states` gets the embeddings' output and that of each layer.
  virtual Output forward(const Input& input, Tensors* states = nullptr);

  std::shared_ptr<BertEmbeddings> embeddings;
  std::shared_ptr<BertEncoder> encoder;
  std::shared_ptr<BertPooler> pooler;  // null without add_pooling_layer

 protected:
  void adapt_state(nn::StateDict& state, const std::string& prefix) override;
};

// The call on other ids.
inline BertModel::Input with_ids(BertModel::Input input, const Tensor& ids) {
  input.ids = ids.data();
  return input;
}

}  // namespace qkv::models
