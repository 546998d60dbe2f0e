// What BERT's classes share: all are made from the fields of a configuration, and the models take the same inputs.
#pragma once

#include "bindings/bind_module.h"
#include "models/bert.h"
#include "nn/init.h"

namespace qkv::bindings {

models::BertArguments take_arguments(const py::dict& given);

// A class that is made from the configuration's fields and `values=False`, which leaves its parameters undefined.
template <class Part, class Class = LayerClass<Part>> Class def_part(Functions& m, const char* name, const char* doc) {
  Class part(m, name, doc);
  const auto build = []<class Made>(std::in_place_type_t<Made>, const py::kwargs& kwargs) {
    py::dict given = kwargs.attr("copy")();
    std::optional<nn::SkipInit> skip;
    if (given.contains("values") && !given.attr("pop")("values").cast<bool>()) skip.emplace();
    return std::make_unique<Made>(take_arguments(given));
  };
  part.def(py::init(
      [build](const py::kwargs& kwargs) { return build(std::in_place_type<Part>, kwargs); },
      [build](const py::kwargs& kwargs) { return build(std::in_place_type<typename Class::type_alias>, kwargs); }));
  return part;
}

}  // namespace qkv::bindings
