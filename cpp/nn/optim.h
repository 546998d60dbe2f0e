// Optimizers: they change parameters in place by the gradients that backward passes left there.
#pragma once

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

class Optimizer {
 public:
  Optimizer(std::string name, Tensors parameters, double lr, double weight_decay);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient. The memory of a parameter changes in place, so that whoever shares it
  // sees the change, unless it belongs to somebody else: then the parameter moves to memory of its own first.
  void step();
  void zero_grad();

  const std::string& name() const { return name_; }
  const Tensors& parameters() const { return parameters_; }
  double lr() const { return lr_; }
  void set_lr(double lr);
  double weight_decay() const { return weight_decay_; }
  void set_weight_decay(double weight_decay);
  // Copies, between two steps.
  std::vector<ParameterState> states() const;
  void set_states(std::vector<ParameterState> states);

 protected:
  virtual void update(const Array& parameter, const Array& gradient, ParameterState& state) = 0;
  // An error if a number of the optimizer's is infinite in the dtype of a parameter.
  virtual void check_numbers(DType dtype) const;

 private:
  std::string name_;
  Tensors parameters_;
  double lr_ = 0, weight_decay_ = 0;
  // A step asks for no interrupt, so it may be held while the pool works.
  mutable Mutex stepping_{Mutex::Rank::outer};
  std::vector<ParameterState> states_;
};

class SGD : public Optimizer {
 public:
  SGD(Tensors parameters, double lr, double momentum, double weight_decay, bool nesterov);
  double momentum() const { return momentum_; }
  bool nesterov() const { return nesterov_; }
  void set_momentum(double momentum, bool nesterov);

 protected:
  void update(const Array& parameter, const Array& gradient, ParameterState& state) override;
  void check_numbers(DType dtype) const override;

 private:
  double momentum_ = 0;
  bool nesterov_ = false;
};

// With decoupled weight decay this is AdamW.
class Adam : public Optimizer {
 public:
  Adam(Tensors parameters, double lr, double beta1, double beta2, double eps, double weight_decay, bool decoupled);
  double beta1() const { return beta1_; }
  double beta2() const { return beta2_; }
  double eps() const { return eps_; }
  void set_averages(double beta1, double beta2, double eps);

 protected:
  void update(const Array& parameter, const Array& gradient, ParameterState& state) override;
  void check_numbers(DType dtype) const override;

 private:
  double beta1_ = 0, beta2_ = 0, eps_ = 0;
  bool decoupled_;
};

// Multiplies all gradients by max_norm / (norm + 1e-6) if that is below 1; returns norm, that of all of them together.
double clip_grad_norm(const Tensors& parameters, double max_norm);

}  // namespace qkv::nn
