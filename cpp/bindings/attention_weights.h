// The property of attention layers that shows the weights of their last call.
#pragma once

#include "bindings/bind_module.h"
#include "bindings/bindings.h"
#include "core/error.h"

namespace qkv::bindings {

// attention_weights: data of the last call; assigning None frees what it is computed from.
template <class Class> void def_attention_weights(Class& layer) {
  using Layer = typename Class::type;
  layer.def_property(
      "attention_weights",
      [](Layer& self) -> py::object {
        const Array weights = without_gil([&] { return self.record.weights(); });
        return weights.defined() ? py::cast(Tensor(weights)) : py::none();
      },
      [](Layer& self, py::handle value) {
        if (!value.is_none()) fail_type("attention_weights: can only be set to None, which frees them");
        self.record.clear();
      },
      "Weights of the last call, before dropout; None before the first.");
}

// The weights of each layer of a stack, in a list: those of the part that `pick` names.
template <class Layers, class Pick> py::list weights_of_layers(const Layers& layers, Pick pick) {
  py::list all;
  for (const auto& layer : layers)
    all.append(py::cast(std::static_pointer_cast<nn::Module>(pick(*layer))).attr("attention_weights"));
  return all;
}

// What a call gives: the output, or with it the weights that were asked for.
inline py::object with_weights(const Tensor& output, const Tensor& weights) {
  if (!weights.defined()) return py::cast(output);
  return py::make_tuple(output, weights);
}

}  // namespace qkv::bindings
