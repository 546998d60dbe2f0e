// Losses.
#include <algorithm>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/positions.h"

namespace qkv::ops {
namespace {

// The targets of a classification, checked; shared by cross_entropy and nll_loss.
struct Targets {
  Index count = 0, classes = 0;
  Shape shape;
  Array classes_of;  // (count) int64, -1 for those that count nothing
  Saved weight;      // (classes) or undefined
};

Targets checked_targets(const char* operation, const char* scores_name, const Tensor& scores, const Array& targets,
                        const Tensor& weight, Index ignore_index) {
  if (scores.rank() < 1)
    fail_value(operation, ": ", scores_name, " must be (..., V); got ", scores_name, " ", scores.shape());
  Targets t;
  t.classes = scores.dim(-1);
  t.shape = Shape(scores.shape().begin(), scores.shape().end() - 1);
  t.count = t.shape.numel();
  if (targets.dtype() != DType::int64)
    fail_type(operation, ": targets must be integers because they are class numbers; got targets of ", targets.dtype());
  if (targets.shape() != t.shape)
    fail_value(operation, ": targets must be ", t.shape, " because ", scores_name, " are ", scores.shape(),
               "; got targets ", targets.shape());
  if (weight.defined() && weight.shape() != Shape{t.classes})
    fail_value(operation, ": weight must be (", t.classes, ",) because ", scores_name, " are ", scores.shape(),
               "; got weight ", weight.shape());
  if (wants_gradient({weight}))
    fail_type(operation, ": weight must be numbers because it takes no gradient; got a Tensor that requires one");
  if (weight.defined()) t.weight = Saved(packed(weight.data()).cast(scores.dtype()));
  t.classes_of = Array(Shape{t.count}, DType::int64);
  for (Index i = 0; i < t.count; ++i) {
    const std::int64_t given = targets.data<std::int64_t>()[i];
    const bool ignored = given == ignore_index;
    if (!ignored && (given < 0 || given >= t.classes))
      fail_value(operation, ": targets must be in 0..", t.classes - 1, " because these are the classes; got target ",
                 given, " at position ", position_in(t.shape, i));
    t.classes_of.data<std::int64_t>()[i] = ignored ? -1 : given;
  }
  return t;
}

template <class T> T weight_of(const Targets& t, std::int64_t target) {
  return t.weight.defined() ? t.weight.data<T>()[target] : T(1);
}

// The factor of each loss in the result: 1, or 1 / total weight for the mean, which is 0 where nothing counts.
template <class T> double share(const Targets& t, Reduction reduction) {
  if (reduction != Reduction::mean) return 1;
  double total = 0;
  for (Index i = 0; i < t.count; ++i)
    if (const std::int64_t c = t.classes_of.data<std::int64_t>()[i]; c >= 0)
      total += static_cast<double>(weight_of<T>(t, c));
  return total == 0 ? 0 : 1 / total;
}

template <class T> Array reduced(Array losses, const Shape& shape, Reduction reduction, double factor) {
  if (reduction == Reduction::none) return losses.reshaped(shape);
  double total = 0;
  for (Index i = 0; i < losses.numel(); ++i) total += static_cast<double>(losses.data<T>()[i]);
  return Array::full({}, losses.dtype(), factor == 0 ? 0 : total * factor);
}

// Coefficients (count, classes) of the losses -sum(coefficient * log probability): the share of the target and, spread
// over all classes, that of the smoothing; zeros where nothing counts.
template <class T> Array coefficients(const Targets& t, double smooth) {
  Array result = Array::zeros({t.count, t.classes}, dtype_v<T>);
  for (Index i = 0; i < t.count; ++i) {
    const std::int64_t c = t.classes_of.data<std::int64_t>()[i];
    if (c < 0) continue;
    T* row = result.data<T>() + i * t.classes;
    if (smooth != 0)
      for (Index j = 0; j < t.classes; ++j)
        row[j] = static_cast<T>(smooth / static_cast<double>(t.classes)) * weight_of<T>(t, j);
    row[c] += static_cast<T>(1 - smooth) * weight_of<T>(t, c);
  }
  return result;
}

// The reduced losses of log probabilities (count, classes), of recorded operations.
Tensor composed_loss(const Tensor& log_probs, const Targets& t, double smooth, Reduction reduction, double factor) {
  const Tensor share =
      visit_floating(log_probs.dtype(), [&]<class T>(T) { return Tensor(coefficients<T>(t, smooth)); });
  const Tensor counted =
      where(share, log_probs, scalar_like(log_probs, 0));  // -inf for a class without a share is no loss
  const Tensor losses = unary(Unary::negate, sum(multiply(share, counted), Axes{1}));
  return reduction == Reduction::none ? reshape(losses, t.shape) : scaled(sum(losses), factor);
}

// What flows into loss i.
template <class T> double arriving(const Array& dy, Reduction reduction, double factor, Index i) {
  return static_cast<double>(dy.data<T>()[reduction == Reduction::none ? i : 0]) * factor;
}

}  // namespace

Reduction reduction_named(const char* operation, const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  fail_value(operation, ": reduction must be 'mean', 'sum' or 'none' because these are defined; got '", name, "'");
}

Tensor cross_entropy(const Tensor& input, const Array& targets, const Tensor& weight, Index ignore_index,
                     double label_smoothing, Reduction reduction) {
  const Tensor logits = floating(input);
  const Targets t = checked_targets("cross_entropy", "logits", logits, targets, weight, ignore_index);
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    fail_value(
        "cross_entropy: label_smoothing must be in 0..1 because it is a share of the target; got label_smoothing = ",
        label_smoothing);
  const Index V = t.classes;
  const double smooth = label_smoothing;
  Array losses = Array::zeros({t.count}, logits.dtype()), lse = Array::zeros({t.count}, logits.dtype());
  double factor = 1;
  Array y;
  visit_floating(logits.dtype(), [&]<class T>(T) {
    const auto& kernel = kernels::kernels<T>().softmax;
    const T* weights = t.weight.defined() ? t.weight.data<T>() : nullptr;
    parallel_for(0, t.count, grain_for(8 * V), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        const std::int64_t c = t.classes_of.data<std::int64_t>()[i];
        if (c < 0) continue;
        const T* row = logits.ptr<T>() + i * V;
        T& total = lse.data<T>()[i];
        kernel.logsumexp(&total, row, 1, V);
        double loss = -(1 - smooth) * static_cast<double>(weight_of<T>(t, c)) * static_cast<double>(row[c] - total);
        if (smooth != 0) loss -= smooth / static_cast<double>(V) * kernel.sum_centred(row, total, weights, V);
        losses.data<T>()[i] = static_cast<T>(loss);
      }
    });
    factor = share<T>(t, reduction);
    y = reduced<T>(losses, t.shape, reduction, factor);
  });
  if (!wants_gradient({logits})) return Tensor(std::move(y));
  const auto kept = std::make_shared<const Targets>(t);
  return record_fused(
      std::move(y), {logits},
      [lse, kept, smooth, reduction, factor](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&]<class T>(T) {
          const auto& kernel = kernels::kernels<T>().softmax;
          const T* weights = kept->weight.defined() ? kept->weight.data<T>() : nullptr;
          double all_weights = static_cast<double>(kept->classes);
          if (weights) all_weights = static_cast<double>(kernels::kernels<T>().reduce.sum(weights, kept->classes));
          const Array gradient = dx.fresh(0);
          T* out = gradient.data<T>();
          const T* x = dx.input(0).data<T>();
          const double spread = smooth / static_cast<double>(kept->classes);
          parallel_for(0, kept->count, grain_for(8 * kept->classes), [&](Index begin, Index end) {
            for (Index i = begin; i < end; ++i) {
              const std::int64_t c = kept->classes_of.data<std::int64_t>()[i];
              T* row = out + i * kept->classes;
              if (c < 0) {
                std::fill(row, row + kept->classes, T(0));
                continue;
              }
              const double g = arriving<T>(dy, reduction, factor, i),
                           hit = (1 - smooth) * static_cast<double>(weight_of<T>(*kept, c));
              kernel.loss_gradients(row, x + i * kept->classes, lse.data<T>()[i],
                                    static_cast<T>(g * (hit + spread * all_weights)), smooth == 0 ? nullptr : weights,
                                    static_cast<T>(g * spread), kept->classes);
              row[c] -= static_cast<T>(g * hit);
            }
          });
          dx.add(0, gradient);
        });
      },
      [kept, smooth, reduction, factor](const Tensor& dy, TensorGradients& dx) {
        derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
          const Tensor rows = reshape(inputs[0], {kept->count, kept->classes});
          Array counted({kept->count, 1}, DType::boolean);
          for (Index i = 0; i < kept->count; ++i)
            counted.data<bool>()[i] = kept->classes_of.data<std::int64_t>()[i] >= 0;
          const Tensor log_probs = log_softmax(where(Tensor(counted), rows, scalar_like(rows, 0)), -1, 1);
          return {composed_loss(log_probs, *kept, smooth, reduction, factor)};
        });
      });
}

Tensor nll_loss(const Tensor& input, const Array& targets, const Tensor& weight, Index ignore_index,
                Reduction reduction) {
  const Tensor log_probs = floating(input);
  const Targets t = checked_targets("nll_loss", "log_probs", log_probs, targets, weight, ignore_index);
  Array losses = Array::zeros({t.count}, log_probs.dtype());
  double factor = 1;
  Array y;
  visit_floating(log_probs.dtype(), [&]<class T>(T) {
    for (Index i = 0; i < t.count; ++i)
      if (const std::int64_t c = t.classes_of.data<std::int64_t>()[i]; c >= 0)
        losses.data<T>()[i] = -weight_of<T>(t, c) * log_probs.ptr<T>()[i * t.classes + c];
    factor = share<T>(t, reduction);
    y = reduced<T>(losses, t.shape, reduction, factor);
  });
  if (!wants_gradient({log_probs})) return Tensor(std::move(y));
  const auto kept = std::make_shared<const Targets>(t);
  return record_fused(
      std::move(y), {log_probs},
      [kept, reduction, factor](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&]<class T>(T) {
          T* out = dx.of(0).data<T>();
          for (Index i = 0; i < kept->count; ++i)
            if (const std::int64_t c = kept->classes_of.data<std::int64_t>()[i]; c >= 0)
              out[i * kept->classes + c] -=
                  static_cast<T>(arriving<T>(dy, reduction, factor, i)) * weight_of<T>(*kept, c);
        });
      },
      [kept, reduction, factor](const Tensor& dy, TensorGradients& dx) {
        derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
          return {composed_loss(reshape(inputs[0], {kept->count, kept->classes}), *kept, 0, reduction, factor)};
        });
      });
}

}  // namespace qkv::ops
