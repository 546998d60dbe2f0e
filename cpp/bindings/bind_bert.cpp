// BERT: the core of the classes in python/qkv/models/bert.py, which give the results names.
#include "bindings/bind_bert.h"

#include "bindings/attention_weights.h"
#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/overridden_call.h"
#include "core/error.h"
#include "models/bert_heads.h"

namespace qkv::bindings {

using namespace models;

template <> struct PythonForward<BertModel> {
  // The class of the package, which gives the results their names.
  static bool only_names(const DefinedCall& forward) {
    static const PyObject* const named = callback("bert_forward")().release().ptr();
    return PyMethod_Check(forward.function.ptr()) != 0 && PyMethod_GET_FUNCTION(forward.function.ptr()) == named;
  }
  static BertModel::Output call(const BertModel& model, const DefinedCall& forward, const BertModel::Input& input,
                                Tensors* states) {
    if (states != nullptr)
      fail_type(type_name(forward.self),
                ": hidden_states must be asked of a BertModel without a forward of its own; got one that has");
    Keywords keywords;
    keywords.add("valid_lens", input.valid_lens);
    keywords.add("attention_mask", input.attention_mask);
    keywords.add("token_type_ids", input.segments);
    keywords.add("skip_padding", input.skip_padding);
    const auto [hidden, pooled] = call_for_parts(forward, py::make_tuple(Tensor(input.ids)), keywords,
                                                 "(last_hidden_state, pooler_output), the second a Tensor or None,");
    const Shape expected{input.ids.dim(0), input.ids.dim(1), model.arguments.hidden_size};
    return {checked_shape(forward, hidden.cast<Tensor>(), expected),
            pooled.is_none() ? Tensor() : pooled.cast<Tensor>()};
  }
};

namespace {

std::optional<Index> optional_index(const py::handle& value) {
  return value.is_none() ? std::optional<Index>() : value.cast<Index>();
}

}  // namespace

models::BertArguments take_arguments(py::dict& given) {
  models::BertArguments a;
  for_fields(a, [&](const char* name, auto& member) {
    if (!given.contains(name)) return;
    const py::object value = given.attr("pop")(name);
    try {
      if constexpr (std::is_same_v<std::decay_t<decltype(member)>, std::optional<Index>>)
        member = optional_index(value);
      else member = value.cast<std::decay_t<decltype(member)>>();
    } catch (const py::cast_error&) {
      fail_type("BertConfig: ", name, " must be of the type of its default; got ", described(value));
    }
  });
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
  return weights_of_layers(model.encoder->parts(), [](nn::Block& layer) { return layer.parts().self_attn; });
}

void bind_bert(Functions& m) {
  m.def("check_bert", "Raise the error that a model of these arguments would raise, without making one.",
        [](const py::kwargs& kwargs) {
          py::dict given = kwargs.attr("copy")();
          const BertPart checked(take_arguments(given));
          check_taken(given);
        });
  auto model = def_part<BertModel, CalledLayerClass<BertModel>>(m, "BertModel", "The core of qkv.models.BertModel.");
  def_call(model, "BertModel", [](BertModel& self, const BertModel::Input& input, Tensors* states) {
    const auto y = without_gil([&] { return self.BertModel::forward(input, states); });
    return py::make_tuple(y.last_hidden_state, or_none(y.pooler_output));
  });
  model.def(
      "hidden_states(input_ids, *, valid_lens=None, attention_mask=None, token_type_ids=None, skip_padding=False)",
      [](BertModel& self, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
         py::handle token_type_ids, bool skip_padding) {
        Call call("BertModel");
        const auto input = bert_input(call, input_ids, valid_lens, attention_mask, token_type_ids, skip_padding);
        Tensors states;
        without_gil([&] { self.BertModel::forward(input, &states); });
        return states;
      });
  model.def_property_readonly("attention_weights", &weights_of, kWeights);
}

}  // namespace qkv::bindings
