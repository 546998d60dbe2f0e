#include "nn/optim.h"

#include <cmath>
#include <unordered_map>

#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv::nn {

ParameterGroup::ParameterGroup(const Optimizer& optimizer, Tensors parameters, const OptimizerSettings& settings,
                               std::vector<std::string> names)
    : optimizer_(optimizer), parameters_(std::move(parameters)), names_(std::move(names)), states_(parameters_.size()) {
  set_settings(settings);
}

void ParameterGroup::set_settings(const OptimizerSettings& settings) {
  optimizer_.check(settings);
  settings_.set(std::make_shared<const OptimizerSettings>(settings));
}

Optimizer::Optimizer(std::string name, const OptimizerSettings& defaults)
    : name_(std::move(name)), defaults_(defaults) {}

void Optimizer::add_group(Tensors parameters, const OptimizerSettings& settings, std::vector<std::string> names) {
  if (parameters.empty()) fail_value(name_, ": params must hold at least one Tensor; got none");
  // Groups are counted where there are several.
  const auto place = [&](std::size_t group, std::size_t i) {
    return groups_.empty() ? text("params[", i, "]") : text("params[", i, "] of group ", group);
  };
  std::unordered_map<const TensorImpl*, std::pair<std::size_t, std::size_t>> seen;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < groups_[group].parameters().size(); ++i)
      seen.try_emplace(groups_[group].parameters()[i].impl().get(), group, i);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    if (!p.is_leaf())
      fail_value(name_, ": params must be leaves because computed Tensors are not stored; got ",
                 place(groups_.size(), i), " ", p.shape());
    if (!is_floating(p.dtype()))
      fail_type(name_, ": params must be floating because they are moved along gradients; got ",
                place(groups_.size(), i), " of ", p.dtype());
    const auto [before, fresh] = seen.try_emplace(p.impl().get(), groups_.size(), i);
    if (!fresh)
      fail_value(name_, ": params must be distinct because a step updates each once; got ",
                 place(before->second.first, before->second.second), " again as ", place(groups_.size(), i));
  }
  groups_.emplace_back(*this, std::move(parameters), settings, std::move(names));
}

void Optimizer::check(const OptimizerSettings& settings) const {
  if (!(settings.lr >= 0))
    fail_value(name_, ": lr must be at least 0 because it is the length of a step; got lr = ", settings.lr);
  if (!(settings.weight_decay >= 0))
    fail_value(name_, ": weight_decay must be at least 0 because it shrinks the parameters; got weight_decay = ",
               settings.weight_decay);
}

void Optimizer::step() {
  const Uninterrupted whole;  // a parameter that is updated in part is of no use to anybody
  const Lock one_after_the_other(stepping_);
  std::vector<OptimizerSettings> now;  // what is assigned meanwhile holds for the next step
  for (const ParameterGroup& group : groups_) {
    now.push_back(group.settings());
    for (const Tensor& p : group.parameters()) check_numbers(now.back(), p.dtype());  // before anything changes
  }
  auto settings = now.cbegin();
  for (ParameterGroup& group : groups_) {
    for (std::size_t i = 0; i < group.parameters_.size(); ++i) {
      TensorImpl& p = *group.parameters_[i].impl();
      ParameterState& state = group.states_[i];
      const LeafGradient::Quiet quiet(p.grad);
      Array gradient = p.grad.get();
      if (!gradient.defined()) continue;
      // After module.to(dtype) what is remembered follows the parameter.
      const DType dtype = p.data.dtype();
      for (Array* array : {&gradient, &state.first, &state.second})
        if (array->defined() && array->dtype() != dtype) *array = array->cast(dtype);
      if (p.data.buffer()->borrowed()) p.data = cloned(p.data);
      ++state.steps;
      Array numbers = packed(p.data);
      update(*settings, numbers, gradient, state);
      if (numbers.is(p.data)) p.data.buffer()->raise_version();
      else write(p.data, numbers);
    }
    ++settings;
  }
}

void Optimizer::check_numbers(const OptimizerSettings& settings, DType dtype) const {
  if (dtype != DType::float32) return;
  in_range<float>(name_, "lr", settings.lr);
  in_range<float>(name_, "weight_decay", settings.weight_decay);
}

Tensors Optimizer::parameters() const {
  Tensors all;
  for (const ParameterGroup& group : groups_)
    all.insert(all.end(), group.parameters().begin(), group.parameters().end());
  return all;
}

double Optimizer::lr() const {
  const double lr = groups_.front().settings().lr;
  for (const ParameterGroup& group : groups_)
    if (const double other = group.settings().lr; other != lr)
      fail_value(name_, ".lr: groups must have one rate because this is the rate of all; got ", lr, " and ", other,
                 "; read or assign group[\"lr\"] for group in optimizer.param_groups");
  return lr;
}

void Optimizer::set_lr(double lr) {
  static_cast<void>(this->lr());
  for (ParameterGroup& group : groups_) {
    OptimizerSettings settings = group.settings();
    settings.lr = lr;
    group.set_settings(settings);
  }
}

std::vector<ParameterState> Optimizer::states() const {
  const Lock lock(stepping_);
  std::vector<ParameterState> copies;
  for (const ParameterGroup& group : groups_) copies.insert(copies.end(), group.states_.begin(), group.states_.end());
  for (ParameterState& state : copies)
    for (Array* array : {&state.first, &state.second})
      if (array->defined()) *array = array->clone();
  return copies;
}

void Optimizer::set_states(std::vector<ParameterState> states) {
  const Lock lock(stepping_);
  auto next = states.begin();
  for (ParameterGroup& group : groups_)
    for (ParameterState& state : group.states_) std::swap(state, *next++);
}

void Optimizer::zero_grad() {
  for (const ParameterGroup& group : groups_)
    for (const Tensor& p : group.parameters()) p.impl()->grad.set({});
}

void SGD::check(const OptimizerSettings& settings) const {
  Optimizer::check(settings);
  if (!(settings.momentum >= 0))
    fail_value(
        "SGD: momentum must be at least 0 because it is the share of the last step that is kept; got momentum = ",
        settings.momentum);
  if (settings.nesterov && settings.momentum == 0)
    fail_value("SGD: momentum must be above 0 because nesterov looks ahead along it; got momentum = 0");
}

void SGD::check_numbers(const OptimizerSettings& settings, DType dtype) const {
  Optimizer::check_numbers(settings, dtype);
  if (dtype == DType::float32) in_range<float>(name(), "momentum", settings.momentum);
}

void SGD::update(const OptimizerSettings& settings, const Array& parameter, const Array& gradient,
                 ParameterState& state) {
  const bool first = !state.first.defined();
  if (settings.momentum != 0 && first) state.first = Array::zeros(parameter.shape(), parameter.dtype());
  visit_floating(parameter.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* velocity = settings.momentum != 0 ? state.first.data<T>() : nullptr;
    const T lr = static_cast<T>(settings.lr), momentum = static_cast<T>(settings.momentum),
            decay = static_cast<T>(settings.weight_decay);
    parallel_for(0, parameter.numel(), grain_for(2), [&](Index begin, Index end) {
      kernels::kernels<T>().optimizer.sgd(parameter.data<T>() + begin, velocity ? velocity + begin : nullptr,
                                          gradient.data<T>() + begin, lr, momentum, decay, settings.nesterov, first,
                                          end - begin);
    });
  });
}

void Adam::check(const OptimizerSettings& settings) const {
  Optimizer::check(settings);
  const double beta1 = settings.beta1, beta2 = settings.beta2;
  if (!(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1))
    fail_value(name(), ": betas must be at least 0 and below 1 because they weigh averages; got betas = (", beta1, ", ",
               beta2, ")");
  if (!(settings.eps >= 0))
    fail_value(name(), ": eps must be at least 0 because it keeps a divisor away from 0; got eps = ", settings.eps);
}

void Adam::check_numbers(const OptimizerSettings& settings, DType dtype) const {
  Optimizer::check_numbers(settings, dtype);
  if (dtype == DType::float32) in_range_above_zero<float>(name(), "eps", settings.eps);
}

void Adam::update(const OptimizerSettings& settings, const Array& parameter, const Array& gradient,
                  ParameterState& state) {
  if (!state.first.defined()) {
    state.first = Array::zeros(parameter.shape(), parameter.dtype());
    state.second = Array::zeros(parameter.shape(), parameter.dtype());
  }
  const double t = static_cast<double>(state.steps);
  const double step = settings.lr / (1 - std::pow(settings.beta1, t));
  const double root = 1 / std::sqrt(1 - std::pow(settings.beta2, t));
  const double shrink = decoupled_ ? 1 - settings.lr * settings.weight_decay : 1;
  const double decay = decoupled_ ? 0 : settings.weight_decay;
  visit_floating(parameter.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, parameter.numel(), grain_for(4), [&](Index begin, Index end) {
      kernels::kernels<T>().optimizer.adam(
          parameter.data<T>() + begin, state.first.data<T>() + begin, state.second.data<T>() + begin,
          gradient.data<T>() + begin, static_cast<T>(step), static_cast<T>(root), settings.beta1, settings.beta2,
          static_cast<T>(settings.eps), static_cast<T>(decay), static_cast<T>(shrink), end - begin);
    });
  });
}

double clip_grad_norm(const Tensors& parameters, double max_norm) {
  if (!(max_norm >= 0))
    fail_value("clip_grad_norm: max_norm must be at least 0 because it is a length; got max_norm = ", max_norm);
  constexpr Index kPiece = 1 << 15;
  double squares = 0;
  for (const Tensor& p : parameters) {
    const LeafGradient::Quiet quiet(p.impl()->grad);
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
  if (factor >= 1 || std::isinf(max_norm)) return norm;
  for (const Tensor& p : parameters) {
    LeafGradient& grad = p.impl()->grad;
    const LeafGradient::Quiet quiet(grad);
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
      if (grad.replace(g, scaled)) break;  // otherwise another thread has set it
    }
  }
  return norm;
}

}  // namespace qkv::nn
