// Steps of optimizers and gradient clipping.
#include "nn/optim.h"
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/values/class.h"
#include "bindings/values/convert.h"
#include "bindings/values/fields.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

using nn::StepGroup;
using nn::StepRule;
using nn::StepSettings;

StepRule rule_of(const std::string& optimizer) {
  return optimizer == "SGD" ? StepRule::sgd : optimizer == "AdamW" ? StepRule::adamw : StepRule::adam;
}

StepSettings settings_from(StepRule rule, const py::dict& options) {
  StepSettings s;
  s.lr = options["lr"].cast<double>();
  s.weight_decay = options["weight_decay"].cast<double>();
  if (rule == StepRule::sgd) {
    s.momentum = options["momentum"].cast<double>();
    s.nesterov = options["nesterov"].cast<bool>();
  } else {
    std::tie(s.beta1, s.beta2) = options["betas"].cast<std::pair<double, double>>();
    s.eps = options["eps"].cast<double>();
  }
  return s;
}

void optimizer_step(const std::vector<std::shared_ptr<StepGroup>>& groups) {
  const Computing whole;  // no change comes in between what is read here and the steps
  const auto steps = nn::next_steps(groups);
  const GilReleased released;
  nn::take_steps(steps);
}

// (steps, first, second) of each parameter; Tensors that share the memory, or arrays of their own.
py::list states_of(const StepGroup& group, bool shared) {
  py::list states;
  const auto shown = [shared](const Array& array) {
    if (shared && array.defined()) return py::cast(Tensor(array));
    return numpy_or_none(array.defined() ? cloned(array) : array, true);
  };
  for (const StepGroup::State& state : group.states)
    states.append(py::make_tuple(state.steps, shown(state.first), shown(state.second)));
  return states;
}

using GivenState = std::tuple<Index, std::optional<Tensor>, std::optional<Tensor>>;
void set_states(StepGroup& group, const std::vector<GivenState>& given) {
  std::vector<StepGroup::State> states;
  const auto array = [](const std::optional<Tensor>& held) { return held ? packed(held->data()) : Array(); };
  for (const auto& [steps, first, second] : given) states.push_back({steps, array(first), array(second)});
  if (states.size() != group.states.size()) throw std::logic_error("StepGroup: one state for each parameter");
  const ExclusiveAccess alone;
  group.states.swap(states);
}

}  // namespace

void bind_optim(Functions& m) {
  Class<StepGroup, std::shared_ptr<StepGroup>> cls(m, "StepGroup");
  def_init<Tensors>(cls, "");
  cls.def("set_options",
          [](StepGroup& group, const std::string& optimizer, const py::dict& options) {
            const StepRule rule = rule_of(optimizer);
            const StepSettings settings = settings_from(rule, options);
            const ExclusiveAccess between_steps;
            group.optimizer = optimizer;
            group.rule = rule;
            group.settings = settings;
          })
      .def("states",
           [](const StepGroup& group) {
             const ExclusiveAccess between_steps;
             return states_of(group, false);
           })
      .def("shared_states", [](const StepGroup& group) { return states_of(group, true); })
      .def("set_states", &set_states)
      .def("zero_grad", [](const StepGroup& group) {
        for (const Tensor& p : group.parameters) p.impl()->grad.set({});
      });
  m.def("optimizer_step", &optimizer_step);
  m.def("clip_grad_norm", [](const Tensors& parameters, double max_norm, bool only_finite) {
    return without_gil([&] { return nn::clip_grad_norm(parameters, max_norm, only_finite); });
  });
}

}  // namespace qkv::bindings
