#include "models/bert.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/in_range.h"
#include "core/parallel.h"
#include "nn/init.h"
#include "ops/ops.h"
#include "ops/position_tables.h"

namespace qkv::models {
namespace {

using nn::Linear;

const BertArguments& checked(const BertArguments& a) {
  nn::check_positive("BertConfig", {{"vocab_size", a.vocab_size},
                                    {"hidden_size", a.hidden_size},
                                    {"num_attention_heads", a.num_attention_heads},
                                    {"intermediate_size", a.intermediate_size},
                                    {"max_position_embeddings", a.max_position_embeddings},
                                    {"type_vocab_size", a.type_vocab_size}});
  if (a.num_hidden_layers < 0)
    fail_value("BertConfig: num_hidden_layers must be at least 0; got ", a.num_hidden_layers);
  if (a.hidden_size % a.num_attention_heads != 0)
    fail_value("BertConfig: hidden_size must be divisible by num_attention_heads; got hidden_size = ", a.hidden_size,
               ", num_attention_heads = ", a.num_attention_heads);
  nn::checked_probability("BertConfig", "hidden_dropout_prob", a.hidden_dropout_prob);
  nn::checked_probability("BertConfig", "attention_probs_dropout_prob", a.attention_probs_dropout_prob);
  const auto from_zero = [](const char* name, double number) {
    if (!(number >= 0) || std::isinf(number))
      fail_value("BertConfig: ", name, " must be a number from 0; got ", number);
    in_range_above_zero<float>("BertConfig", name, number);
  };
  from_zero("initializer_range", a.initializer_range);
  from_zero("layer_norm_eps", a.layer_norm_eps);
  if (a.pad_token_id && (*a.pad_token_id < 0 || *a.pad_token_id >= a.vocab_size))
    fail_value("BertConfig: pad_token_id must be from 0 to vocab_size - 1 = ", a.vocab_size - 1, "; got ",
               *a.pad_token_id);
  nn::activation_named("BertConfig", "hidden_act", a.hidden_act, {"relu", "gelu", "gelu_new"});
  return a;
}

std::shared_ptr<nn::LayerNorm> norm_of(const BertArguments& a) {
  return std::make_shared<nn::LayerNorm>(Shape{a.hidden_size}, a.layer_norm_eps);
}
std::shared_ptr<nn::Dropout> dropout_of(const BertArguments& a) {
  return std::make_shared<nn::Dropout>(a.hidden_dropout_prob);
}

constexpr nn::MultiHeadAttention::Names kAttention{.layer = "BertModel",
                                                   .queries = "hidden_states",
                                                   .widths = {"hidden_size", "hidden_size", "hidden_size"},
                                                   .parts = {"query", "key", "value", nullptr}};

nn::MultiHeadAttention::Arguments attention_of(const BertArguments& a) {
  nn::MultiHeadAttention::Arguments given;
  given.embed_dim = a.hidden_size;
  given.num_heads = a.num_attention_heads;
  given.dropout = a.attention_probs_dropout_prob;
  return given;
}

constexpr nn::BlockNames kLayer{"BertLayer",
                                "hidden_states",
                                {{"self_attn", "attention.self"},
                                 {"attention_output", "attention.output.dense"},
                                 {"norm1", "attention.output.LayerNorm"},
                                 {"dropout1", "attention.output.dropout"},
                                 {"linear1", "intermediate.dense"},
                                 {"linear2", "output.dense"},
                                 {"norm2", "output.LayerNorm"},
                                 {"dropout2", "output.dropout"}},
                                {"attention", "intermediate and output"},
                                true};

nn::BlockOptions block_of(const BertArguments& a) {
  return {.attention = attention_of(a),
          .inner = a.intermediate_size,
          .dropout = a.hidden_dropout_prob,
          .activation = a.hidden_act == "gelu_new" ? "gelu_tanh" : a.hidden_act,
          .norm_eps = a.layer_norm_eps};
}

// Normal weights of the given spread, zero biases, and zeros in the rows of padding; nothing while a SkipInit lives.
void draw_bert(nn::Module& module, double spread) {
  if (nn::SkipInit::active()) return;
  for (const auto& [name, part] : module.named_modules()) {
    if (const auto* linear = dynamic_cast<const Linear*>(part.get())) {
      nn::fill_normal(linear->weight.data(), 0, spread);
      std::fill_n(linear->bias.ptr<float>(), linear->bias.numel(), 0.0f);
    } else if (const auto* table = dynamic_cast<const nn::Embedding*>(part.get())) {
      nn::fill_normal(table->weight.data(), 0, spread);
      if (table->padding_idx)
        std::fill_n(table->weight.ptr<float>() + *table->padding_idx * table->embedding_dim, table->embedding_dim,
                    0.0f);
    }
  }
}

// Files made from TensorFlow's checkpoints call the parameters of a LayerNorm gamma and beta.
void rename_norms(nn::StateDict& state, const std::string& prefix) {
  nn::StateDict renamed;
  for (const auto& [name, array] : state)
    for (const auto& [old, now] : {std::pair<std::string, std::string>{"LayerNorm.gamma", "LayerNorm.weight"},
                                   {"LayerNorm.beta", "LayerNorm.bias"}})
      if (name.starts_with(prefix) && name.ends_with(old))
        renamed[name] = array, renamed[name.substr(0, name.size() - old.size()) + now] = array;
  for (const auto& [name, array] : renamed) {
    if (name.ends_with("gamma") || name.ends_with("beta")) state.erase(name);
    else state.emplace(name, array);
  }
}

// Parts are made without values when they are parts of something that draws them itself.
template <class Make> void make_parts(nn::Module& module, double spread, Make make) {
  {
    const nn::SkipInit skip;
    make();
  }
  draw_bert(module, spread);
}

}  // namespace

nn::Config bert_config(const BertArguments& a) {
  nn::Config config;
  for_fields(a, [&](const char* name, const auto& value) { config.emplace_back(name, nn::value_of(value)); });
  return config;
}

BertPart::BertPart(const BertArguments& a) : arguments(checked(a)) {}

BertEmbeddings::BertEmbeddings(const BertArguments& a) : BertPart(a) {
  make_parts(*this, a.initializer_range, [&] {
    const auto table = [&](Index rows, std::optional<Index> padding) {
      return std::make_shared<nn::Embedding>(rows, a.hidden_size, padding);
    };
    own_module("word_embeddings", word_embeddings, table(a.vocab_size, a.pad_token_id));
    own_module("position_embeddings", position_embeddings, table(a.max_position_embeddings, {}));
    own_module("token_type_embeddings", token_type_embeddings, table(a.type_vocab_size, {}));
    own_module("LayerNorm", norm, norm_of(a));
    own_module("dropout", dropout, dropout_of(a));
  });
}

// Old files hold the numbers of the positions.
void BertEmbeddings::adapt_state(nn::StateDict& state, const std::string& prefix) {
  state.erase(prefix + "position_ids");
  state.erase(prefix + "token_type_ids");
}

Tensor BertEmbeddings::forward(const Array& ids, const Array& segments, const PaddedRows& rows) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(ids), [&](const Tensor& y) { return BertEmbeddings::forward(y.data(), segments, rows); });
  if (rows.length > arguments.max_position_embeddings)
    fail_value("BertModel: input_ids must have at most max_position_embeddings = ", arguments.max_position_embeddings,
               " positions; got input_ids ", ids.shape());
  Tensor x = word_embeddings->forward_ids(rows.picked(ids));  // (B, L, M) or (R, M)
  x = ops::add(x, token_type_embeddings->forward_ids(segments.defined() ? rows.picked(segments)
                                                                        : Array::zeros({1}, DType::int64)));
  x = ops::add(x, position_embeddings->forward_ids(rows.picked(ops::consecutive(0, rows.length))));
  return dropout->forward(norm->forward(x));
}

BertSelfAttention::BertSelfAttention(const BertArguments& a)
    : MultiHeadAttention(kAttention, attention_of(checked(a)), nn::SkipInit()), bert(a) {
  draw_bert(*this, a.initializer_range);
}

BertLayer::BertLayer(const BertArguments& a, const nn::SkipInit&)
    : Block(kLayer, block_of(checked(a)), std::make_shared<BertSelfAttention>(a)), arguments(a) {}

void BertLayer::draw() { draw_bert(*this, arguments.initializer_range); }

BertEncoder::BertEncoder(const BertArguments& a) : BertPart(a) {
  auto layers = std::make_shared<nn::ModuleList>();
  for (Index i = 0; i < a.num_hidden_layers; ++i) layers->append(std::make_shared<BertLayer>(a));
  own_module("layer", layer, std::move(layers));
}

Tensor BertEncoder::forward(const Tensor& x, const PaddedRows& rows, Tensors* states) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(x, [&](const Tensor& y) { return BertEncoder::forward(y, rows, states); });
  const nn::BlockCall call{.self = rows.mask_spec, .rows = rows.packed() ? &rows : nullptr};
  Tensors own;
  const Tensor y = nn::through(parts(), x, Tensor(), call, nullptr, nullptr, states != nullptr ? &own : nullptr);
  for (const Tensor& state : own) states->push_back(rows.packed() ? unpacked(state, rows) : state);
  return y;
}

BertPooler::BertPooler(const BertArguments& a) : BertPart(a) {
  make_parts(*this, a.initializer_range,
             [&] { own_module("dense", dense, std::make_shared<Linear>(a.hidden_size, a.hidden_size)); });
}

Tensor BertPooler::forward(const Tensor& hidden) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(hidden, [&](const Tensor& y) { return BertPooler::forward(y); });
  const Tensor first = ops::reshape(ops::slice(hidden, 1, 0, 1), {hidden.dim(0), hidden.dim(2)});
  return dense->forward(first, kernels::Activation::tanh);
}

BertModel::BertModel(const BertArguments& a) : BertPart(a) {
  own_module("embeddings", embeddings, std::make_shared<BertEmbeddings>(a));
  own_module("encoder", encoder, std::make_shared<BertEncoder>(a));
  own_module("pooler", pooler, a.add_pooling_layer ? std::make_shared<BertPooler>(a) : nullptr, Absent::allowed);
}

void BertModel::adapt_state(nn::StateDict& state, const std::string& prefix) { rename_norms(state, prefix); }

BertModel::Output BertModel::forward(const Input& input, Tensors* states) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(input.ids), [&](const Tensor& y) { return BertModel::forward(with_ids(input, y), states); },
                     {&Output::last_hidden_state, &Output::pooler_output});
  const Array& ids = input.ids;
  if (ids.rank() != 2 || ids.dim(1) < 1)
    fail_value("BertModel: input_ids must be (B, L) with L at least 1; got input_ids ", ids.shape());
  if (input.segments.defined() && input.segments.shape() != ids.shape())
    fail_value("BertModel: token_type_ids must have the shape of input_ids ", ids.shape(), "; got token_type_ids ",
               input.segments.shape());
  const PaddedRows rows =
      padded_rows("BertModel", ids.dim(0), ids.dim(1), input.valid_lens, input.attention_mask, input.skip_padding);
  const auto whole = [&](const Tensor& x) { return rows.packed() ? unpacked(x, rows) : x; };
  Tensor x = embeddings->forward(ids, input.segments, rows);  // (B, L, M) or (R, M)
  if (states != nullptr) states->push_back(whole(x));
  x = encoder->forward(x, rows, states);
  const Tensor hidden = states != nullptr ? states->back() : whole(x);
  return {hidden, pooler ? pooler->forward(hidden) : Tensor()};
}

}  // namespace qkv::models
