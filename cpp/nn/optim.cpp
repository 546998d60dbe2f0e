#include "nn/optim.h"

#include <cmath>
#include <unordered_map>

#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv::nn {

Optimizer::Optimizer(std::string name, Tensors parameters, double lr, double weight_decay)
    : name_(std::move(name)), parameters_(std::move(parameters)), states_(parameters_.size()) {
  if (parameters_.empty()) fail_value(name_, ": params must hold at least one Tensor; got none");
  std::unordered_map<const TensorImpl*, std::size_t> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (!p.is_leaf())
      fail_value(name_, ": params must be leaves because computed Tensors are not stored; got params[", i, "] ",
                 p.shape());
    if (!is_floating(p.dtype()))
      fail_type(name_, ": params must be floating because they are moved along gradients; got params[", i, "] of ",
                p.dtype());
    const auto [before, fresh] = seen.try_emplace(p.impl().get(), i);
    if (!fresh)
      fail_value(name_, ": params must be distinct because a step updates each once; got params[", before->second,
                 "] again as params[", i, "]");
  }
  set_lr(lr);
  set_weight_decay(weight_decay);
}

void Optimizer::set_lr(double lr) {
  if (!(lr >= 0)) fail_value(name_, ": lr must be at least 0 because it is the length of a step; got lr = ", lr);
  lr_ = lr;
}

void Optimizer::set_weight_decay(double weight_decay) {
  if (!(weight_decay >= 0))
    fail_value(name_, ": weight_decay must be at least 0 because it shrinks the parameters; got weight_decay = ",
               weight_decay);
  weight_decay_ = weight_decay;
}

void Optimizer::step() {
  const Uninterrupted whole;  // a parameter that is updated in part is of no use to anybody
  const Lock one_after_the_other(stepping_);
  for (const Tensor& p : parameters_) check_numbers(p.dtype());  // before anything changes
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    TensorImpl& p = *parameters_[i].impl();
    Array gradient = p.grad.get();
    if (!gradient.defined()) continue;
    // After module.to(dtype) what is remembered follows the parameter.
    const DType dtype = p.data.dtype();
    for (Array* array : {&gradient, &states_[i].first, &states_[i].second})
      if (array->defined() && array->dtype() != dtype) *array = array->cast(dtype);
    if (p.data.buffer()->borrowed()) p.data = p.data.clone();
    ++states_[i].steps;
    update(p.data, gradient, states_[i]);
    p.data.buffer()->raise_version();
  }
}

void Optimizer::check_numbers(DType dtype) const {
  if (dtype != DType::float32) return;
  in_range<float>(name_, "lr", lr_);
  in_range<float>(name_, "weight_decay", weight_decay_);
}

std::vector<ParameterState> Optimizer::states() const {
  const Lock lock(stepping_);
  std::vector<ParameterState> copies = states_;
  for (ParameterState& state : copies)
    for (Array* array : {&state.first, &state.second})
      if (array->defined()) *array = array->clone();
  return copies;
}

void Optimizer::set_states(std::vector<ParameterState> states) {
  const Lock lock(stepping_);
  states_.swap(states);
}

void Optimizer::zero_grad() {
  for (const Tensor& p : parameters_) p.impl()->grad.set({});
}

SGD::SGD(Tensors parameters, double lr, double momentum, double weight_decay, bool nesterov)
    : Optimizer("SGD", std::move(parameters), lr, weight_decay) {
  set_momentum(momentum, nesterov);
}

void SGD::set_momentum(double momentum, bool nesterov) {
  if (!(momentum >= 0))
    fail_value(
        "SGD: momentum must be at least 0 because it is the share of the last step that is kept; got momentum = ",
        momentum);
  if (nesterov && momentum == 0)
    fail_value("SGD: momentum must be above 0 because nesterov looks ahead along it; got momentum = 0");
  momentum_ = momentum;
  nesterov_ = nesterov;
}

void SGD::check_numbers(DType dtype) const {
  Optimizer::check_numbers(dtype);
  if (dtype == DType::float32) in_range<float>(name(), "momentum", momentum_);
}

void SGD::update(const Array& parameter, const Array& gradient, ParameterState& state) {
  const bool first = !state.first.defined();
  if (momentum_ != 0 && first) state.first = Array::zeros(parameter.shape(), parameter.dtype());
  visit_floating(parameter.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* velocity = momentum_ != 0 ? state.first.data<T>() : nullptr;
    parallel_for(0, parameter.numel(), grain_for(2), [&](Index begin, Index end) {
      kernels::kernels<T>().optimizer.sgd(parameter.data<T>() + begin, velocity ? velocity + begin : nullptr,
                                          gradient.data<T>() + begin, static_cast<T>(lr()), static_cast<T>(momentum_),
                                          static_cast<T>(weight_decay()), nesterov_, first, end - begin);
    });
  });
}

Adam::Adam(Tensors parameters, double lr, double beta1, double beta2, double eps, double weight_decay, bool decoupled)
    : Optimizer(decoupled ? "AdamW" : "Adam", std::move(parameters), lr, weight_decay), decoupled_(decoupled) {
  set_averages(beta1, beta2, eps);
}

void Adam::set_averages(double beta1, double beta2, double eps) {
  if (!(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
    fail_value(name(), ": betas must be at least 0 and below 1 because they weigh averages; got betas = (", beta1, ", ",
               beta2, ")");
  if (!(eps >= 0))
    fail_value(name(), ": eps must be at least 0 because it keeps a divisor away from 0; got eps = ", eps);
  beta1_ = beta1;
  beta2_ = beta2;
  eps_ = eps;
}

void Adam::check_numbers(DType dtype) const {
  Optimizer::check_numbers(dtype);
  if (dtype == DType::float32) in_range_above_zero<float>(name(), "eps", eps_);
}

void Adam::update(const Array& parameter, const Array& gradient, ParameterState& state) {
  if (!state.first.defined()) {
    state.first = Array::zeros(parameter.shape(), parameter.dtype());
    state.second = Array::zeros(parameter.shape(), parameter.dtype());
  }
  const double t = static_cast<double>(state.steps);
  const double step = lr() / (1 - std::pow(beta1_, t)), root = 1 / std::sqrt(1 - std::pow(beta2_, t));
  const double shrink = decoupled_ ? 1 - lr() * weight_decay() : 1, decay = decoupled_ ? 0 : weight_decay();
  visit_floating(parameter.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, parameter.numel(), grain_for(4), [&](Index begin, Index end) {
      kernels::kernels<T>().optimizer.adam(
          parameter.data<T>() + begin, state.first.data<T>() + begin, state.second.data<T>() + begin,
          gradient.data<T>() + begin, static_cast<T>(step), static_cast<T>(root), beta1_, beta2_, static_cast<T>(eps_),
          static_cast<T>(decay), static_cast<T>(shrink), end - begin);
    });
  });
}

double clip_grad_norm(const Tensors& parameters, double max_norm) {
  if (!(max_norm >= 0))
    fail_value("clip_grad_norm: max_norm must be at least 0 because it is a length; got max_norm = ", max_norm);
  constexpr Index kPiece = 1 << 15;
  double squares = 0;
  for (const Tensor& p : parameters) {
    const Array g = p.impl()->grad.get();
    if (!g.defined()) continue;
    std::vector<double> parts(static_cast<std::size_t>((g.numel() + kPiece - 1) / kPiece));
    visit_floating(g.dtype(), [&](auto tag) {
      using T = decltype(tag);
      parallel_for(0, g.numel(), kPiece, [&](Index begin, Index end) {
        parts[static_cast<std::size_t>(begin / kPiece)] =
            kernels::kernels<T>().optimizer.sum_squares(g.data<T>() + begin, end - begin);
      });
    });
    for (const double part : parts) squares += part;
  }
  const double norm = std::sqrt(squares), factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const Tensor& p : parameters) {
    LeafGradient& grad = p.impl()->grad;
    for (Array g = grad.get(); g.defined(); g = grad.get()) {
      const Array scaled(g.shape(), g.dtype());  // other threads may read the old one
      visit_floating(g.dtype(), [&](auto tag) {
        using T = decltype(tag);
        const T share = static_cast<T>(factor);
        parallel_for(0, g.numel(), kPiece, [&](Index begin, Index end) {
          kernels::kernels<T>().elementwise.binary(kernels::Binary::multiply, scaled.data<T>() + begin,
                                                   g.data<T>() + begin, 1, &share, 0, end - begin);
        });
      });
      if (grad.replace(g, scaled)) break;  // otherwise another backward pass has added to it
    }
  }
  return norm;
}

}  // namespace qkv::nn
