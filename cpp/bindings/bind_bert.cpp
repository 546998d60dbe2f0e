// BERT: the core of the classes in python/qkv/models/bert.py, which give the results names.
#include "bindings/bind_bert.h"

#include "bindings/attention_weights.h"
#include "bindings/bindings.h"
#include "core/error.h"
#include "models/bert_heads.h"

namespace qkv::bindings {
namespace {

using namespace models;

std::optional<Index> optional_index(const py::handle& value) {
  return value.is_none() ? std::optional<Index>() : value.cast<Index>();
}

template <class Part> LayerClass<Part> def_part(py::module_& m, const char* name, const char* doc) {
  LayerClass<Part> part(m, name, doc);
  def_init<Part>(part, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict&) {
    return std::make_unique<Made>(a);
  });
  return part;
}

void bind_parts(py::module_& m) {
  def_part<BertEmbeddings>(m, "BertEmbeddings", "Sum of word, position and segment embeddings, normalised.");
  auto self_attention = def_part<BertSelfAttention>(m, "BertSelfAttention", "Projections and heads of a BERT layer.");
  def_attention_weights(self_attention);
  LayerClass<BertOutput> output(m, "BertOutput", "LayerNorm(dropout(dense(x)) + residual).");
  def_init<BertOutput>(output, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict& given) {
    return std::make_unique<Made>(a, take_own(given, "inner", true));
  });
  def_part<BertAttention>(m, "BertAttention",
                          "Self-attention and its residual connection: parts ``self`` and ``output``.");
  def_part<BertIntermediate>(m, "BertIntermediate", "activation(dense(x)).");
  def_part<BertLayer>(m, "BertLayer", "One layer of BERT: parts ``attention``, ``intermediate``, ``output``.")
      .def(
          "forward",
          [](BertLayer& self, py::handle hidden_states, py::handle valid_lens, py::handle attention_mask) {
            Call call("BertLayer");
            const Tensor x = nn::as_dtype_of(call.floating(hidden_states, "hidden_states"), self.output->dense->weight);
            if (x.rank() != 3 || x.dim(2) != self.arguments.hidden_size)
              fail_value("BertLayer: hidden_states must be (B, L, ", self.arguments.hidden_size,
                         "); got hidden_states ", x.shape());
            const Array lens = nn::snapshot(call.integers(valid_lens, "valid_lens"));
            const Array mask =
                attention_mask.is_none() ? Array() : packed(call.any(attention_mask, "attention_mask", false).data());
            return without_gil([&] { return self.forward(x, bert_rows(x.dim(0), x.dim(1), lens, mask, false)); });
          },
          py::arg("hidden_states"), py::kw_only(), py::arg("valid_lens") = py::none(),
          py::arg("attention_mask") = py::none());
  def_part<BertEncoder>(m, "BertEncoder", "The layers of BERT, in the ModuleList ``layer``.");
  def_part<BertPooler>(m, "BertPooler", "tanh(dense(first row)) of (B, L, M).");
  def_part<BertPredictionHead>(m, "BertPredictionHead", "Scores of the words, from the table of word embeddings.");
  LayerClass<BertPreTrainingHeads> heads(m, "BertPreTrainingHeads",
                                         "The heads of pre-training: parts ``predictions`` and ``seq_relationship``.");
  def_init<BertPreTrainingHeads>(heads,
                                 []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict& given) {
                                   return std::make_unique<Made>(a, take_own(given, "next_sentence", true));
                                 });
}

}  // namespace

models::BertArguments take_arguments(py::dict& given) {
  models::BertArguments a;
  const auto take = [&](const char* name, auto& member) {
    if (!given.contains(name)) return;
    const py::object value = given.attr("pop")(name);
    try {
      if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<Index>>)
        member = optional_index(value);
      else member = value.cast<std::decay_t<decltype(member)>>();
    } catch (const py::cast_error&) {
      fail_type("BertConfig: ", name, " must be of the type of its default; got ", described(value));
    }
  };
  take("vocab_size", a.vocab_size);
  take("hidden_size", a.hidden_size);
  take("num_hidden_layers", a.num_hidden_layers);
  take("num_attention_heads", a.num_attention_heads);
  take("intermediate_size", a.intermediate_size);
  take("hidden_act", a.hidden_act);
  take("hidden_dropout_prob", a.hidden_dropout_prob);
  take("attention_probs_dropout_prob", a.attention_probs_dropout_prob);
  take("max_position_embeddings", a.max_position_embeddings);
  take("type_vocab_size", a.type_vocab_size);
  take("initializer_range", a.initializer_range);
  take("layer_norm_eps", a.layer_norm_eps);
  take("pad_token_id", a.pad_token_id);
  take("add_pooling_layer", a.add_pooling_layer);
  return a;
}

void check_taken(const py::dict& given) {
  if (!given.empty()) fail_type("BertConfig: unknown argument ", std::string(py::str(given.begin()->first)));
}

models::BertModel::Input bert_input(Call& call, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                                    py::handle token_type_ids, bool skip_padding) {
  models::BertModel::Input input;
  input.ids = call.integers(input_ids, "input_ids", false);
  input.valid_lens = nn::snapshot(call.integers(valid_lens, "valid_lens"));
  if (!attention_mask.is_none())
    input.attention_mask = nn::snapshot(packed(call.any(attention_mask, "attention_mask", false).data()));
  input.segments = call.integers(token_type_ids, "token_type_ids");
  input.skip_padding = skip_padding;
  return input;
}

py::list weights_of(models::BertModel& model) {
  py::list all;
  for (const auto& layer : model.encoder->parts()) {
    const Array weights = without_gil([&] { return layer->attention->self->record.weights(); });
    all.append(weights.defined() ? py::cast(Tensor(weights)) : py::none());
  }
  return all;
}

void bind_bert(py::module_& m) {
  m.def(
      "check_bert",
      [](const py::kwargs& kwargs) {
        py::dict given = kwargs.attr("copy")();
        const BertPart checked(take_arguments(given));
        check_taken(given);
      },
      "Raise the error that a model of these arguments would raise, without making one.");
  bind_parts(m);
  auto model = def_part<BertModel>(m, "BertModel", "The core of qkv.models.BertModel.");
  def_call(model, "BertModel", "forward", [](BertModel& self, const BertModel::Input& input) {
    const auto y = without_gil([&] { return self.BertModel::forward(input); });
    return py::make_tuple(y.last_hidden_state, or_none(y.pooler_output));
  });
  def_call(model, "BertModel", "hidden_states", [](BertModel& self, const BertModel::Input& input) {
    Tensors states;
    without_gil([&] { self.BertModel::forward(input, &states); });
    return states;
  });
  model.def_property_readonly("attention_weights", &weights_of, kWeights);
}

}  // namespace qkv::bindings
