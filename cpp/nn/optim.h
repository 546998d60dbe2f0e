// Steps of optimizers: they change parameters in place by the gradients that backward passes left there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/tensor.h"

namespace qkv::nn {

enum class StepRule { sgd, adam, adamw };  // the last with decoupled weight decay

// What decides the steps of a group of parameters; a rule reads those that its formula has.
struct StepSettings {
  double lr = 0, weight_decay = 0;
  double momentum = 0;  // SGD
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam
  // An error if a number is infinite in the dtype of a parameter.
  void check(const std::string& optimizer, StepRule rule, DType dtype) const;
};

// One parameter's next step, and what is remembered of it: momentum; or the averages of the gradient and
// of its square.
struct ParameterStep {
  const Tensor* parameter;
  Array gradient;
  const Array *first, *second;
  double number;  // counted from 1
  StepRule rule;
  const StepSettings* settings;
  bool starts;  // nothing is remembered so far, and `first` is zeros
};

// The parameters of a group, their steps so far, what is remembered of them, and what decides the next step.
struct StepGroup {
  struct State {
    Index steps = 0;
    Array first, second;
  };
  explicit StepGroup(Tensors given) : parameters(std::move(given)), states(parameters.size()) {}
  const Tensors parameters;
  std::vector<State> states;
  std::string optimizer;
  StepRule rule = StepRule::sgd;
  StepSettings settings;
};

// The next step of each parameter that has a gradient. The states are brought up to date, and may be replaced only
// between two steps.
std::vector<ParameterStep> next_steps(const std::vector<std::shared_ptr<StepGroup>>& groups);

// All of them, one call after the other. The memory of a parameter changes in place, so that all that share it see the
// change, unless it has another owner: then the parameter moves to memory of its own first.
void take_steps(const std::vector<ParameterStep>& steps);

// Multiplies all gradients by max_norm / (norm + 1e-6) if that is below 1, and the norm finite if only_finite; returns
// norm, that of all of them together.
double clip_grad_norm(const Tensors& parameters, double max_norm, bool only_finite);

}  // namespace qkv::nn
