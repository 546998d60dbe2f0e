// BERT: the core of the classes in python/qkv/models/bert.py, which give the results names.
#include "bindings/bind_bert.h"

#include "bindings/attention_weights.h"
#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/overridden_call.h"
#include "core/error.h"

namespace qkv::bindings {

using namespace models;

namespace {

std::optional<Index> optional_index(const py::handle& value) {
  return value.is_none() ? std::optional<Index>() : value.cast<Index>();
}

models::BertModel::Input bert_input(Call& call, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                                    py::handle token_type_ids, bool skip_padding) {
  models::BertModel::Input input;
  input.ids = call.integers(input_ids, "input_ids");
  input.valid_lens = nn::snapshot(call.integers_or_none(valid_lens, "valid_lens"));
  if (!attention_mask.is_none())
    input.attention_mask = nn::snapshot(packed(call.mask(attention_mask, "attention_mask").data()));
  input.segments = call.integers_or_none(token_type_ids, "token_type_ids");
  input.skip_padding = skip_padding;
  return input;
}

}  // namespace

models::BertArguments take_arguments(const py::dict& kwargs) {
  const py::dict given = kwargs.attr("copy")();
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
  if (!given.empty()) fail_type("BertConfig: unknown argument ", std::string(py::str(given.begin()->first)));
  return a;
}

void bind_bert(Functions& m) {
  m.def("check_bert", "Raise the error that a model of these arguments would raise, without making one.",
        [](const py::kwargs& kwargs) { const BertPart checked(take_arguments(kwargs)); });
  auto model = def_part<BertModel>(m, "BertModel", "The core of qkv.models.BertModel.");
  model.def(
      "forward(input_ids, *, valid_lens=None, attention_mask=None, token_type_ids=None, skip_padding=False, "
      "output_hidden_states=False)",
      [](BertModel& self, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
         py::handle token_type_ids, bool skip_padding, bool output_hidden_states) -> py::tuple {
        Call call("BertModel");
        const auto input = bert_input(call, input_ids, valid_lens, attention_mask, token_type_ids, skip_padding);
        Tensors states;
        const auto y =
            without_gil([&] { return self.BertModel::forward(input, output_hidden_states ? &states : nullptr); });
        const py::object pooled = y.pooler_output.defined() ? py::cast(y.pooler_output) : py::none();
        if (output_hidden_states) return py::make_tuple(y.last_hidden_state, pooled, states);
        return py::make_tuple(y.last_hidden_state, pooled);
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
  model.def_property_readonly(
      "attention_weights",
      [](BertModel& self) {
        return weights_of_layers(self.encoder->parts(), [](nn::Block& layer) { return layer.parts().self_attn; });
      },
      "List of (B, H, L, L), one per layer: weights of the last call, before dropout; None before the first.");
}

}  // namespace qkv::bindings
