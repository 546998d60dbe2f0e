// BERT with heads: for pre-training and for classes of texts and of words.
#include "bindings/bind_bert.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "models/bert_heads.h"

namespace qkv::bindings {
namespace {

using namespace models;

template <class Model, class Base, class Bound = Class<Model, Base, Overridable<Model>, py::smart_holder>>
Bound def_head(Functions& m, const char* name) {
  Bound model(m, name, (std::string("The core of qkv.models.") + name + ".").c_str());
  model.def_property_readonly("attention_weights", [](Model& self) { return weights_of(*self.bert); }, kWeights);
  return model;
}

template <class Model> void bind_pre_training(Functions& m, const char* name) {
  auto model = def_head<Model, nn::Module>(m, name);
  model.def(
      py::init([](std::shared_ptr<BertModel> bert) { return std::make_unique<Model>(std::move(bert)); },
               [](std::shared_ptr<BertModel> bert) { return std::make_unique<Overridable<Model>>(std::move(bert)); }),
      "bert"_takes);
  def_init<Model>(model, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict&) {
    return std::make_unique<Made>(std::make_shared<BertModel>(a));
  });
  def_call(model, name, [](Model& self, const BertModel::Input& input, Tensors* states) {
    const auto y = without_gil([&] { return self.Model::forward(input, states); });
    return py::make_tuple(y.words, or_none(y.next_sentence));
  });
}

template <class Model> void bind_classifier(Functions& m, const char* name) {
  auto model = def_head<Model, nn::Module>(m, name);
  model.def(py::init(
                [](std::shared_ptr<BertModel> bert, Index num_labels, std::optional<double> dropout) {
                  return std::make_unique<Model>(std::move(bert), num_labels, dropout);
                },
                [](std::shared_ptr<BertModel> bert, Index num_labels, std::optional<double> dropout) {
                  return std::make_unique<Overridable<Model>>(std::move(bert), num_labels, dropout);
                }),
            "bert, num_labels, classifier_dropout=None"_takes);
  def_init<Model>(model, []<class Made>(std::in_place_type_t<Made>, const BertArguments& a, py::dict& given) {
    std::optional<double> dropout;
    const py::object p = take_own<py::object>(given, "classifier_dropout", py::none());
    if (!p.is_none()) dropout = p.cast<double>();
    const Index labels = take_own<Index>(given, "num_labels", 2);
    return std::make_unique<Made>(std::make_shared<BertModel>(a), labels, dropout);
  });
  def_call(model, name, [](Model& self, const BertModel::Input& input, Tensors* states) {
    return py::make_tuple(without_gil([&] { return self.Model::forward(input, states); }));
  });
}

}  // namespace

void bind_bert_heads(Functions& m) {
  bind_pre_training<BertForPreTraining>(m, "BertForPreTraining");
  bind_pre_training<BertForMaskedLM>(m, "BertForMaskedLM");
  bind_classifier<BertForSequenceClassification>(m, "BertForSequenceClassification");
  bind_classifier<BertForTokenClassification>(m, "BertForTokenClassification");
}

}  // namespace qkv::bindings
