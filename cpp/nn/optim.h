// Optimizers: they change parameters in place by the gradients that backward passes left there.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "autograd/tensor.h"
#include "core/locks.h"

namespace qkv::nn {

// What an optimizer remembers of one parameter; the arrays are undefined before the parameter's first step.
struct ParameterState {
  Index steps = 0;
  Array first, second;  // momentum; or the averages of the gradient and of its square
};

// What decides the steps of a group of parameters; an optimizer reads those that its formula has.
struct OptimizerSettings {
  double lr = 0, weight_decay = 0;
  double momentum = 0;  // SGD
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // Adam
};

class Optimizer;

// Parameters that are stepped by the same settings.
class ParameterGroup {
 public:
  ParameterGroup(const Optimizer& optimizer, Tensors parameters, const OptimizerSettings& settings,
                 std::vector<std::string> names);

  const Optimizer& optimizer() const { return optimizer_; }
  const Tensors& parameters() const { return parameters_; }
  // In the model, by which states find them again; none if they came without.
  const std::vector<std::string>& names() const { return names_; }
  OptimizerSettings settings() const { return *settings_.get(); }
  // For the next step; an error leaves them as they are.
  void set_settings(const OptimizerSettings& settings);

 private:
  friend class Optimizer;
  const Optimizer& optimizer_;
  Tensors parameters_;
  std::vector<std::string> names_;
  Published<OptimizerSettings> settings_;
  std::vector<ParameterState> states_;
};

class Optimizer {
 public:
  Optimizer(std::string name, const OptimizerSettings& defaults);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // While no other thread uses the optimizer.
  void add_group(Tensors parameters, const OptimizerSettings& settings, std::vector<std::string> names = {});
  // Updates every parameter that has a gradient. The memory of a parameter changes in place, so that whoever shares it
  // sees the change, unless it belongs to somebody else: then the parameter moves to memory of its own first.
  void step();
  void zero_grad();

  const std::string& name() const { return name_; }
  // Those of groups that say nothing else.
  const OptimizerSettings& defaults() const { return defaults_; }
  // They stay where they are when others are added.
  std::deque<ParameterGroup>& groups() { return groups_; }
  const std::deque<ParameterGroup>& groups() const { return groups_; }
  Tensors parameters() const;  // of all groups, in order
  // That of all groups; an error if they have several.
  double lr() const;
  void set_lr(double lr);
  // Copies, of all groups' parameters in order, between two steps.
  std::vector<ParameterState> states() const;
  void set_states(std::vector<ParameterState> states);

  // An error if one is out of its range.
  virtual void check(const OptimizerSettings& settings) const;

 protected:
  virtual void update(const OptimizerSettings& settings, const Array& parameter, const Array& gradient,
                      ParameterState& state) = 0;
  // An error if a number is infinite in the dtype of a parameter.
  virtual void check_numbers(const OptimizerSettings& settings, DType dtype) const;

 private:
  const std::string name_;
  const OptimizerSettings defaults_;
  std::deque<ParameterGroup> groups_;
  // A step asks for no interrupt, so it may be held while the pool works.
  mutable Mutex stepping_{Mutex::Rank::outer};  // guards the groups' states
};

class SGD : public Optimizer {
 public:
  explicit SGD(const OptimizerSettings& defaults) : Optimizer("SGD", defaults) {}
  void check(const OptimizerSettings& settings) const override;

 protected:
  void update(const OptimizerSettings& settings, const Array& parameter, const Array& gradient,
              ParameterState& state) override;
  void check_numbers(const OptimizerSettings& settings, DType dtype) const override;
};

// With decoupled weight decay this is AdamW.
class Adam : public Optimizer {
 public:
  explicit Adam(const OptimizerSettings& defaults, bool decoupled = false)
      : Optimizer(decoupled ? "AdamW" : "Adam", defaults), decoupled_(decoupled) {}
  bool decoupled() const { return decoupled_; }
  void check(const OptimizerSettings& settings) const override;

 protected:
  void update(const OptimizerSettings& settings, const Array& parameter, const Array& gradient,
              ParameterState& state) override;
  void check_numbers(const OptimizerSettings& settings, DType dtype) const override;

 private:
  const bool decoupled_;
};

// Multiplies all gradients by max_norm / (norm + 1e-6) if that is below 1; returns norm, that of all of them together.
double clip_grad_norm(const Tensors& parameters, double max_norm);

}  // namespace qkv::nn
