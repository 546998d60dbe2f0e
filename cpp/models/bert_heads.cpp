#include "models/bert_heads.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "nn/init.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

std::shared_ptr<BertModel> required(std::shared_ptr<BertModel> encoder) {
  if (!encoder) fail_type("BertWithHead: bert must be a BertModel; got None");
  return encoder;
}

bool equal(const Array& a, const Array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(packed(a).raw(), packed(b).raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

// A head's own layers are drawn after they are made without values.
template <class Make> auto drawn(double spread, Make make) {
  auto made = [&] {
    const nn::SkipInit skip;
    return make();
  }();
  draw_bert(*made, spread);
  return made;
}

}  // namespace

BertPredictionHead::BertPredictionHead(const BertArguments& a)
    : BertPart(a), activation_(bert_activation(a.hidden_act)) {
  own_module("transform", transform, std::make_shared<nn::Module>());
  transform->register_module(
      "dense", drawn(a.initializer_range, [&] { return std::make_shared<nn::Linear>(a.hidden_size, a.hidden_size); }));
  transform->register_module("LayerNorm", std::make_shared<nn::LayerNorm>(Shape{a.hidden_size}, a.layer_norm_eps));
  own_parameter("bias", bias, nn::constant_parameter({a.vocab_size}, 0));
}

Tensor BertPredictionHead::forward(const Tensor& x, const Tensor& words) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return BertPredictionHead::forward(y, words); });
  const auto part = [&](const char* name) {
    const Entry* entry = transform->find(name);
    if (entry == nullptr || !entry->module)
      fail_type("BertPredictionHead: transform must hold dense and LayerNorm; got none named ", name);
    return entry->module;
  };
  const Tensor y = nn::plain(*transform)
                       ? part("LayerNorm")->forward(ops::activated(part("dense")->forward(x), activation_))
                       : transform->forward(x);
  return ops::linear(y, words, bias);
}

BertPreTrainingHeads::BertPreTrainingHeads(const BertArguments& a, bool next_sentence) : BertPart(a) {
  own_module("predictions", predictions, std::make_shared<BertPredictionHead>(a));
  std::shared_ptr<nn::Linear> relationship;
  if (next_sentence)
    relationship = drawn(a.initializer_range, [&] { return std::make_shared<nn::Linear>(a.hidden_size, 2); });
  own_module("seq_relationship", seq_relationship, std::move(relationship), Absent::allowed);
}

nn::Config BertPreTrainingHeads::config() const {
  nn::Config config = BertPart::config();
  config.emplace_back("next_sentence", seq_relationship != nullptr);
  return config;
}

BertLogits BertPreTrainingHeads::forward(const Tensor& hidden, const Tensor& pooled, const Tensor& words) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(hidden, [&](const Tensor& y) { return BertPreTrainingHeads::forward(y, pooled, words); },
                     {&BertLogits::words, &BertLogits::next_sentence});
  return {predictions->forward(hidden, words), seq_relationship ? seq_relationship->forward(pooled) : Tensor()};
}

BertWithHead::BertWithHead(std::shared_ptr<BertModel> encoder) : BertPart(required(encoder)->arguments) {
  own_module("bert", bert, std::move(encoder));
}

BertForPreTraining::BertForPreTraining(std::shared_ptr<BertModel> encoder, bool next_sentence)
    : BertWithHead(std::move(encoder)) {
  if (next_sentence && !bert->pooler)
    fail_value("BertForPreTraining: bert must have a pooler because next sentences are told by it; got one without");
  own_module("cls", cls, std::make_shared<BertPreTrainingHeads>(arguments, next_sentence));
}

// The decoder is the table of word embeddings, which files may hold a second time, and its bias has two names.
void BertForPreTraining::adapt_state(nn::StateDict& state, const std::string& prefix) {
  rename_norms(state, prefix + "cls.");
  const auto same = [&](const std::string& copy, const std::string& own) {
    const auto found = state.find(prefix + copy), kept = state.find(prefix + own);
    if (found == state.end()) return;
    if (kept == state.end()) state[prefix + own] = found->second;
    else if (!equal(found->second, kept->second))
      fail_value("load_state_dict: ", prefix, copy, " must equal ", own,
                 " because they are one parameter; got other numbers");
    state.erase(prefix + copy);
  };
  same("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight");
  same("cls.predictions.decoder.bias", "cls.predictions.bias");
}

BertLogits BertForPreTraining::forward(const BertModel::Input& input, Tensors* states) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(input.ids),
                     [&](const Tensor& y) { return BertForPreTraining::forward(with_ids(input, y), states); },
                     {&BertLogits::words, &BertLogits::next_sentence});
  const BertModel::Output y = bert->forward(input, states);
  return cls->forward(y.last_hidden_state, y.pooler_output, bert->embeddings->word_embeddings->weight);
}

BertClassifier::BertClassifier(std::shared_ptr<BertModel> encoder, Index num_labels, std::optional<double> p,
                               bool pooled)
    : BertWithHead(std::move(encoder)), given_dropout_(p), pooled_(pooled) {
  nn::check_positive("BertConfig", {{"num_labels", num_labels}});
  if (pooled && !bert->pooler)
    fail_value(
        "BertForSequenceClassification: bert must have a pooler because classes are told by it; got one without");
  own_module("dropout", dropout, std::make_shared<nn::Dropout>(p.value_or(arguments.hidden_dropout_prob)));
  own_module("classifier", classifier, drawn(arguments.initializer_range, [&] {
               return std::make_shared<nn::Linear>(arguments.hidden_size, num_labels);
             }));
}

nn::Config BertClassifier::config() const {
  nn::Config config = BertPart::config();
  config.emplace_back("num_labels", classifier->out_features);
  config.emplace_back("classifier_dropout", nn::value_of(given_dropout_));
  return config;
}

Tensor BertClassifier::forward(const BertModel::Input& input, Tensors* states) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(input.ids),
                     [&](const Tensor& y) { return BertClassifier::forward(with_ids(input, y), states); });
  const BertModel::Output y = bert->forward(input, states);
  return classifier->forward(dropout->forward(pooled_ ? y.pooler_output : y.last_hidden_state));
}

}  // namespace qkv::models
