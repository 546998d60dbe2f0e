// BERT: the core of the classes in python/qkv/models/bert.py, which give the results names.
#include "bindings/attention_weights.h"
#include "bindings/bind_module.h"
#include "bindings/bindings.h"
#include "core/error.h"
#include "models/bert_heads.h"
#include "nn/init.h"

namespace qkv::bindings {
namespace {

using namespace models;

std::optional<Index> optional_index(const py::handle& value) {
  return value.is_none() ? std::optional<Index>() : value.cast<Index>();
}

// Takes the arguments of the configuration out of keywords; those that are left belong to the class.
BertArguments take_arguments(py::dict& given) {
  BertArguments a;
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

template <class T> T take_own(py::dict& given, const char* name, T fallback) {
  if (!given.contains(name)) return fallback;
  const py::object value = given.attr("pop")(name);
  return value.is_none() ? fallback : value.cast<T>();
}

void check_taken(const py::dict& given) {
  if (!given.empty()) fail_type("BertConfig: unknown argument ", std::string(py::str(given.begin()->first)));
}

// A class that is made from the configuration's fields and `values=False`, which leaves its parameters undefined.
template <class Part, class Class, class Make> void def_init(Class& part, Make make) {
  const auto build = [make]<class Made>(std::in_place_type_t<Made> kind, const py::kwargs& kwargs) {
    py::dict given = kwargs.attr("copy")();
    const bool values = take_own(given, "values", true);
    const BertArguments arguments = take_arguments(given);
    std::optional<nn::SkipInit> skip;
    if (!values) skip.emplace();
    auto made = make(kind, arguments, given);
    check_taken(given);
    return made;
  };
  part.def(
      py::init([build](const py::kwargs& kwargs) { return build(std::in_place_type<Part>, kwargs); },
               [build](const py::kwargs& kwargs) { return build(std::in_place_type<Overridable<Part>>, kwargs); }));
}

template <class Part> LayerClass<Part> def_part(py::module_& m, const char* name, const char* doc) {
  LayerClass<Part> part(m, name, doc);
  def_init<Part>(part, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict&) {
    return std::make_unique<Made>(a);
  });
  return part;
}

BertModel::Input input_from(Call& call, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                            py::handle token_type_ids, bool skip_padding) {
  BertModel::Input input;
  input.ids = call.integers(input_ids, "input_ids", false);
  input.valid_lens = nn::snapshot(call.integers(valid_lens, "valid_lens"));
  if (!attention_mask.is_none())
    input.attention_mask = nn::snapshot(call.any(attention_mask, "attention_mask", false).data());
  input.segments = call.integers(token_type_ids, "token_type_ids");
  input.skip_padding = skip_padding;
  return input;
}

py::object or_none(const Tensor& x) { return x.defined() ? py::cast(x) : py::none(); }

// forward(input_ids, *, ...) that gives `results(self, input)` as a tuple.
template <class Class, class Results>
void def_call(Class& model, const char* name, const char* method, Results results) {
  using Model = typename Class::type;
  model.def(
      method,
      [name, results](Model& self, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                      py::handle token_type_ids, bool skip_padding) {
        Call call(name);
        const BertModel::Input input =
            input_from(call, input_ids, valid_lens, attention_mask, token_type_ids, skip_padding);
        return results(self, input);
      },
      py::arg("input_ids"), py::kw_only(), py::arg("valid_lens") = py::none(), py::arg("attention_mask") = py::none(),
      py::arg("token_type_ids") = py::none(), py::arg("skip_padding") = false);
}

py::list weights_of(BertModel& model) {
  py::list all;
  for (const auto& layer : model.encoder->parts()) {
    const Array weights = without_gil([&] { return layer->attention->self->record.weights(); });
    all.append(weights.defined() ? py::cast(Tensor(weights)) : py::none());
  }
  return all;
}

constexpr const char* kWeights =
    "List of (B, H, L, L), one per layer: weights of the last call, before dropout; None before the first.";

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
                attention_mask.is_none() ? Array() : call.any(attention_mask, "attention_mask", false).data();
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

template <class Model, class Base, class Class = py::class_<Model, Base, Overridable<Model>, py::smart_holder>>
Class def_head(py::module_& m, const char* name) {
  Class model(m, name, (std::string("The core of qkv.models.") + name + ".").c_str());
  model.def_property_readonly("attention_weights", [](Model& self) { return weights_of(*self.bert); }, kWeights);
  return model;
}

template <class Model> void bind_pre_training(py::module_& m, const char* name) {
  auto model = def_head<Model, nn::Module>(m, name);
  model.def(
      py::init([](std::shared_ptr<BertModel> bert) { return std::make_unique<Model>(std::move(bert)); },
               [](std::shared_ptr<BertModel> bert) { return std::make_unique<Overridable<Model>>(std::move(bert)); }),
      py::arg("bert"));
  def_init<Model>(model, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict&) {
    return std::make_unique<Made>(std::make_shared<BertModel>(a));
  });
  def_call(model, name, "forward", [](Model& self, const BertModel::Input& input) {
    const auto y = without_gil([&] { return self.Model::forward(input); });
    return py::make_tuple(y.words, or_none(y.next_sentence));
  });
}

template <class Model> void bind_classifier(py::module_& m, const char* name) {
  auto model = def_head<Model, nn::Module>(m, name);
  model.def(py::init(
                [](std::shared_ptr<BertModel> bert, Index num_labels, std::optional<double> dropout) {
                  return std::make_unique<Model>(std::move(bert), num_labels, dropout);
                },
                [](std::shared_ptr<BertModel> bert, Index num_labels, std::optional<double> dropout) {
                  return std::make_unique<Overridable<Model>>(std::move(bert), num_labels, dropout);
                }),
            py::arg("bert"), py::arg("num_labels"), py::arg("classifier_dropout") = py::none());
  def_init<Model>(model, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict& given) {
    std::optional<double> dropout;
    const py::object p = take_own<py::object>(given, "classifier_dropout", py::none());
    if (!p.is_none()) dropout = p.cast<double>();
    const Index labels = take_own<Index>(given, "num_labels", 2);
    return std::make_unique<Made>(std::make_shared<BertModel>(a), labels, dropout);
  });
  def_call(model, name, "forward", [](Model& self, const BertModel::Input& input) {
    return py::make_tuple(without_gil([&] { return self.Model::forward(input); }));
  });
}

}  // namespace

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
  bind_pre_training<BertForPreTraining>(m, "BertForPreTraining");
  bind_pre_training<BertForMaskedLM>(m, "BertForMaskedLM");
  bind_classifier<BertForSequenceClassification>(m, "BertForSequenceClassification");
  bind_classifier<BertForTokenClassification>(m, "BertForTokenClassification");
}

}  // namespace qkv::bindings
