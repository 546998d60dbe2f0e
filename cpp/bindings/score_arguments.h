// The constructor arguments that say how scores are made, of attention layers and of the blocks that hold them.
#pragma once

#include "bindings/overridden_call.h"
#include "nn/score_options.h"

namespace qkv::bindings {

// None or a dict of the fields that are not the defaults.
std::optional<nn::RelativeBias> relative_bias_from(py::handle value, const char* layer);
// None or a dict with Hugging Face's names, of which those that the rule does not know are ignored as there.
ops::RotaryScaling rotary_scaling_from(py::handle value, const char* layer);

// __init__ from what `arguments` makes of the options of scores and of the layer's own arguments, which come first.
template <class Class, class Arguments, class... Extra>
void def_init_with_scores(Class& layer, const char* name, Arguments arguments, const Extra&... extra) {
  const auto all = [&]<class Result, class... Own>(Result (Arguments::*)(const nn::ScoreOptions&, Own...) const) {
    return
        [name, arguments](Own... own, py::handle window, double softcap, bool alibi, std::optional<double> scale,
                          std::optional<double> masked_value, bool sinks, const std::optional<std::string>& qk_norm,
                          py::handle relative_bias, std::optional<double> rotary_base, std::optional<Index> rotary_dim,
                          py::handle rotary_scaling, const std::string& normalizer) {
          nn::ScoreOptions scores{.window = window_from(window, name),
                                  .softcap = softcap,
                                  .alibi = alibi,
                                  .scale = scale,
                                  .masked_value = masked_value,
                                  .sinks = sinks,
                                  .relative_bias = relative_bias_from(relative_bias, name),
                                  .rotary_base = rotary_base,
                                  .rotary_dim = rotary_dim,
                                  .rotary_scaling = rotary_scaling_from(rotary_scaling, name),
                                  .normalizer = ops::normalizer_named(name, normalizer)};
          if (qk_norm) scores.qk_norm = nn::norm_named(name, "qk_norm", *qk_norm);
          return arguments(scores, std::forward<Own>(own)...);
        };
  };
  def_init_from(layer, all(&Arguments::operator()), extra...,
                "window=None, softcap=0.0, alibi=False, scale=None, masked_value=None, sinks=False, "
                "qk_norm=None, relative_bias=None, rotary_base=None, rotary_dim=None, rotary_scaling=None, "
                "normalizer='softmax'"_takes);
}

}  // namespace qkv::bindings
