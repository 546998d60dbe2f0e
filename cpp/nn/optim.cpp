#include "nn/optim.h"

#include <cmath>

#include "core/in_range.h"
#include "core/locks.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/numbers.h"

namespace qkv::nn {
namespace {

template <class T> void sgd_step(const ParameterStep& step, Array& parameter) {
  const StepSettings& s = *step.settings;
  T* velocity = s.momentum != 0 ? step.first->data<T>() : nullptr;
  parallel_for(0, parameter.numel(), grain_for(2), [&](Index begin, Index end) {
    kernels::kernels<T>().optimizer.sgd(parameter.data<T>() + begin, velocity ? velocity + begin : nullptr,
                                        step.gradient.data<T>() + begin, static_cast<T>(s.lr),
                                        static_cast<T>(s.momentum), static_cast<T>(s.weight_decay), s.nesterov,
                                        step.starts, end - begin);
  });
}

template <class T> void adam_step(const ParameterStep& step, Array& parameter) {
  const StepSettings& s = *step.settings;
  const double length = s.lr / (1 - ops::power_of(s.beta1, static_cast<double>(step.number)));
  const double root = 1 / std::sqrt(1 - ops::power_of(s.beta2, static_cast<double>(step.number)));
  const bool decoupled = step.rule == StepRule::adamw;
  const double shrink = decoupled ? 1 - s.lr * s.weight_decay : 1, decay = decoupled ? 0 : s.weight_decay;
  parallel_for(0, parameter.numel(), grain_for(4), [&](Index begin, Index end) {
    kernels::kernels<T>().optimizer.adam(
        parameter.data<T>() + begin, step.first->data<T>() + begin, step.second->data<T>() + begin,
        step.gradient.data<T>() + begin, static_cast<T>(length), static_cast<T>(root), s.beta1, s.beta2,
        static_cast<T>(s.eps), static_cast<T>(decay), static_cast<T>(shrink), end - begin);
  });
}

}  // namespace

void StepSettings::check(const std::string& optimizer, StepRule rule, DType dtype) const {
  if (dtype != DType::float32) return;
  in_range<float>(optimizer, "lr", lr);
  in_range<float>(optimizer, "weight_decay", weight_decay);
  if (rule == StepRule::sgd) in_range<float>(optimizer, "momentum", momentum);
  else in_range_above_zero<float>(optimizer, "eps", eps);
}

namespace {

// Zeros at first; the array follows the parameter's dtype, as after module.to(dtype).
void prepare(Array& array, const Array& parameter) {
  if (!array.defined()) array = Array::zeros(parameter.shape(), parameter.dtype());
  else if (array.dtype() != parameter.dtype()) array = array.cast(parameter.dtype());
}

}  // namespace

std::vector<ParameterStep> next_steps(const std::vector<std::shared_ptr<StepGroup>>& groups) {
  for (const auto& group : groups)
    for (const Tensor& p : group->parameters) group->settings.check(group->optimizer, group->rule, p.dtype());
  std::vector<ParameterStep> steps;
  for (const auto& group : groups)
    for (std::size_t i = 0; i < group->states.size(); ++i) {
      const Tensor& p = group->parameters[i];
      Array gradient = p.impl()->grad.get();
      if (!gradient.defined()) continue;
      const Array& numbers = p.layout();
      prepare(gradient, numbers);
      StepGroup::State& state = group->states[i];
      const bool starts = !state.first.defined(), averages = group->rule != StepRule::sgd;
      if (averages || group->settings.momentum != 0) prepare(state.first, numbers);
      if (averages) prepare(state.second, numbers);
      ++state.steps;
      steps.push_back({&p, std::move(gradient), &state.first, &state.second, static_cast<double>(state.steps),
                       group->rule, &group->settings, starts});
    }
  return steps;
}

static Mutex stepping{Mutex::Rank::outer};  // held while the pool works (core/locks.h)

void take_steps(const std::vector<ParameterStep>& steps) {
  const Uninterrupted whole;  // a parameter that is updated in part is of no use to anybody
  const Lock one_after_the_other(stepping);
  for (const ParameterStep& step : steps) {
    TensorImpl& p = *step.parameter->impl();
    const LeafGradient::Quiet quiet(p.grad);
    if (p.array.buffer()->borrowed()) p.set(cloned(p.array));
    Array numbers = packed(p.data());
    visit_floating(numbers.dtype(), [&]<class T>(T) {
      if (step.rule == StepRule::sgd) sgd_step<T>(step, numbers);
      else adam_step<T>(step, numbers);
    });
    if (numbers.is(p.array)) p.array.buffer()->raise_version();
    else write(p.array, numbers);
  }
}

double clip_grad_norm(const Tensors& parameters, double max_norm, bool only_finite) {
  if (!(max_norm >= 0))
    fail_value("clip_grad_norm: max_norm must be at least 0 because it is a length; got max_norm = ", max_norm);
  constexpr Index kPiece = 1 << 15;
  double squares = 0;
  for (const Tensor& p : parameters) {
    const LeafGradient::Quiet quiet(p.impl()->grad);
    const Array g = p.impl()->grad.get();
    if (!g.defined()) continue;
    std::vector<double> parts(static_cast<std::size_t>((g.numel() + kPiece - 1) / kPiece));
    visit_floating(g.dtype(), [&]<class T>(T) {
      parallel_for(0, g.numel(), kPiece, [&](Index begin, Index end) {
        parts[static_cast<std::size_t>(begin / kPiece)] =
            kernels::kernels<T>().optimizer.sum_squares(g.data<T>() + begin, end - begin);
      });
    });
    for (const double part : parts) squares += part;
  }
  const double norm = std::sqrt(squares), factor = max_norm / (norm + 1e-6);
  if (factor >= 1 || std::isinf(max_norm) || (only_finite && !std::isfinite(norm))) return norm;
  for (const Tensor& p : parameters) {
    LeafGradient& grad = p.impl()->grad;
    const LeafGradient::Quiet quiet(grad);
    for (Array g = grad.get(); g.defined(); g = grad.get()) {
      const Array scaled(g.shape(), g.dtype());  // other threads may read the old one
      visit_floating(g.dtype(), [&]<class T>(T) {
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
