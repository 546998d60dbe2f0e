// The property of attention layers that shows the weights of their last call.
#pragma once

#include "bindings/bindings.h"
#include "bindings/layers/call_options.h"
#include "bindings/modules/layer_class.h"
#include "core/error.h"

namespace qkv::bindings {

inline Index count_of_axes(py::handle value) {
  return is_tensor(value) || py::isinstance<py::array>(value) ? static_cast<Index>(py::len(value.attr("shape"))) : 0;
}

// attention_weights: data of the last call; assigning None frees what it is computed from.
template <class Class> void def_attention_weights(Class& layer) {
  using Layer = typename Class::type;
  layer.def_property(
      "attention_weights",
      "Weights of the last call, before dropout; None before the first. A forward of a subclass may set its own; None "
      "frees them.",
      [](Layer& self) -> py::object {
        const Array weights = without_gil([&] { return self.record.weights(); });
        return weights.defined() ? py::cast(Tensor(weights)) : py::none();
      },
      [](Layer& self, py::handle value) {
        if (value.is_none()) return self.record.clear();
        Call call("attention_weights");
        if (count_of_axes(value) < 2)
          fail_type("attention_weights: can only be set to None, which frees them, or to weights (..., Lq, Lk); got ",
                    described(value));
        self.record.keep(nn::AttentionRecord::of(cloned(call.floating(value, "attention_weights").data()), {}));
      });
}

// The weights of each layer of a stack, in a list: those of the part that `pick` names.
template <class Layers, class Pick> py::list weights_of_layers(const Layers& layers, Pick pick) {
  py::list all;
  for (const auto& layer : layers)
    all.append(py::getattr(py::cast(nn::ModulePtr(pick(*layer))), "attention_weights", py::none()));
  return all;
}

}  // namespace qkv::bindings
