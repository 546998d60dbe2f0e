// What stands on top of BERT: the two tasks of its pre-training, and classes of sentences and of tokens.
#pragma once

#include <utility>

#include "models/bert.h"

namespace qkv::models {

// LayerNorm(activation(dense(x))), then the words: y @ word_embeddings^T + bias.
class BertPredictionHead : public BertPart {
 public:
  explicit BertPredictionHead(const BertArguments& arguments);
  std::string class_name() const override { return "BertPredictionHead"; }
  using Module::forward;
  virtual Tensor forward(const Tensor& x, const Tensor& words);  // (..., M), (V, M) to (..., V)

  std::shared_ptr<nn::Module> transform;  // holds dense and LayerNorm, or has a forward
  Tensor bias;                            // (V,)

 private:
  const kernels::Activation activation_;
};

struct BertLogits {
  Tensor words, next_sentence;  // (B, L, V), (B, 2) or not defined
};

// The name "cls" of Hugging Face's files.
class BertPreTrainingHeads : public BertPart {
 public:
  BertPreTrainingHeads(const BertArguments& arguments, bool next_sentence);
  std::string class_name() const override { return "BertPreTrainingHeads"; }
  nn::Config config() const override;
  using Module::forward;
  // Of the hidden states (B, L, M), their pooled row (B, M), which may be undefined, and the table of words (V, M).
  virtual BertLogits forward(const Tensor& hidden, const Tensor& pooled, const Tensor& words);

  std::shared_ptr<BertPredictionHead> predictions;
  std::shared_ptr<nn::Linear> seq_relationship;  // (2, M); null without next_sentence
};

// A model around an encoder.
class BertWithHead : public BertPart {
 public:
  explicit BertWithHead(std::shared_ptr<BertModel> encoder);
  std::shared_ptr<BertModel> bert;
};

// Both heads, or with `next_sentence` false only that of the masked words.
class BertForPreTraining : public BertWithHead {
 public:
  BertForPreTraining(std::shared_ptr<BertModel> encoder, bool next_sentence = true);
  std::string class_name() const override { return "BertForPreTraining"; }
  using Module::forward;
  BertLogits forward(const BertModel::Input& input, Tensors* states = nullptr);
  std::shared_ptr<BertPreTrainingHeads> cls;

 protected:
  void adapt_state(nn::StateDict& state, const std::string& prefix) override;
};

class BertForMaskedLM : public BertForPreTraining {
 public:
  explicit BertForMaskedLM(std::shared_ptr<BertModel> encoder) : BertForPreTraining(std::move(encoder), false) {}
  std::string class_name() const override { return "BertForMaskedLM"; }
};

// A Linear layer on the pooled first row, or on every row.
class BertClassifier : public BertWithHead {
 public:
  BertClassifier(std::shared_ptr<BertModel> encoder, Index num_labels, std::optional<double> dropout, bool pooled);
  nn::Config config() const override;
  using Module::forward;
  Tensor forward(const BertModel::Input& input, Tensors* states = nullptr);
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Linear> classifier;

 private:
  const std::optional<double> given_dropout_;
  const bool pooled_;
};

class BertForSequenceClassification : public BertClassifier {
 public:
  BertForSequenceClassification(std::shared_ptr<BertModel> encoder, Index num_labels, std::optional<double> dropout)
      : BertClassifier(std::move(encoder), num_labels, dropout, true) {}
  std::string class_name() const override { return "BertForSequenceClassification"; }
};

class BertForTokenClassification : public BertClassifier {
 public:
  BertForTokenClassification(std::shared_ptr<BertModel> encoder, Index num_labels, std::optional<double> dropout)
      : BertClassifier(std::move(encoder), num_labels, dropout, false) {}
  std::string class_name() const override { return "BertForTokenClassification"; }
};

}  // namespace qkv::models
