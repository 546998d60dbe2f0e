// What BERT's classes share: all are made from the fields of a configuration, and the models take the same inputs.
#pragma once

#include "bindings/bind_module.h"
#include "models/bert.h"
#include "nn/init.h"

namespace qkv::bindings {

// Takes the arguments of the configuration out of keywords; those that are left belong to the class.
models::BertArguments take_arguments(py::dict& given);

template <class T> T take_own(py::dict& given, const char* name, T fallback) {
  if (!given.contains(name)) return fallback;
  const py::object value = given.attr("pop")(name);
  return value.is_none() ? fallback : value.cast<T>();
}

void check_taken(const py::dict& given);

// A class that is made from the configuration's fields and `values=False`, which leaves its parameters undefined.
template <class Part, class Class, class Make> void def_init(Class& part, Make make) {
  const auto build = [make]<class Made>(std::in_place_type_t<Made> kind, const py::kwargs& kwargs) {
    py::dict given = kwargs.attr("copy")();
    const bool values = take_own(given, "values", true);
    const models::BertArguments arguments = take_arguments(given);
    std::optional<nn::SkipInit> skip;
    if (!values) skip.emplace();
    auto made = make(kind, arguments, given);
    check_taken(given);
    return made;
  };
  part.def(py::init(
      [build](const py::kwargs& kwargs) { return build(std::in_place_type<Part>, kwargs); },
      [build](const py::kwargs& kwargs) { return build(std::in_place_type<typename Class::type_alias>, kwargs); }));
}

models::BertModel::Input bert_input(Call& call, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                                    py::handle token_type_ids, bool skip_padding);

inline py::object or_none(const Tensor& x) { return x.defined() ? py::cast(x) : py::none(); }

// forward(input_ids, *, ...) that gives `results(self, input, states)`, a tuple; the states are its last entry if they
// are asked for.
template <class Class, class Results> void def_call(Class& model, const char* name, Results results) {
  using Model = typename Class::type;
  model.def(
      "forward(input_ids, *, valid_lens=None, attention_mask=None, token_type_ids=None, skip_padding=False, "
      "output_hidden_states=False)",
      [name, results](Model& self, py::handle input_ids, py::handle valid_lens, py::handle attention_mask,
                      py::handle token_type_ids, bool skip_padding, bool output_hidden_states) {
        Call call(name);
        const models::BertModel::Input input =
            bert_input(call, input_ids, valid_lens, attention_mask, token_type_ids, skip_padding);
        Tensors states;
        const py::tuple found = results(self, input, output_hidden_states ? &states : nullptr);
        return output_hidden_states ? py::tuple(found + py::make_tuple(states)) : found;
      });
}

template <class Part, class Class = LayerClass<Part>> Class def_part(Functions& m, const char* name, const char* doc) {
  Class part(m, name, doc);
  def_init<Part>(part, []<class Made>(std::in_place_type_t<Made>, const models::BertArguments& a, py::dict&) {
    return std::make_unique<Made>(a);
  });
  return part;
}

py::list weights_of(models::BertModel& model);

inline constexpr const char* kWeights =
    "List of (B, H, L, L), one per layer: weights of the last call, before dropout; None before the first.";

}  // namespace qkv::bindings
