// Sums, means, maxima and log-sum-exp over axes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/batch_invariance.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/integers.h"
#include "ops/ops.h"
#include "ops/strides.h"

namespace qkv::ops {
namespace {

// What a reduction over some axes does to a shape.
struct Plan {
  Shape kept;        // with 1 for each reduced axis
  Shape result;      // as the caller wants it
  Axes order;        // permutation that brings the reduced axes to the end
  Index rows = 1;    // numbers kept
  Index length = 1;  // numbers per row
};

Plan plan(const char* operation, const Shape& shape, const std::optional<Axes>& axes, bool keepdims) {
  std::vector<bool> reduced(shape.size(), !axes.has_value());
  if (axes) {
    for (const Index axis : *axes) {
      const auto at = static_cast<std::size_t>(checked_axis(operation, axis, shape.rank()));
      if (reduced[at]) fail_value(operation, ": axis must name each axis once; got axis ", axis, " twice");
      reduced[at] = true;
    }
  }
  Plan p;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    p.kept.push_back(reduced[axis] ? 1 : shape[axis]);
    (reduced[axis] ? p.length : p.rows) *= shape[axis];
    if (!reduced[axis]) p.order.push_back(static_cast<Index>(axis));
    if (!reduced[axis] || keepdims) p.result.push_back(p.kept[axis]);
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (reduced[axis]) p.order.push_back(static_cast<Index>(axis));
  return p;
}

// x with the reduced axes last, so that each row of `length` numbers is contiguous.
Array rows_of(const Array& x, const Plan& p) {
  if (std::is_sorted(p.order.begin(), p.order.end())) return x;
  const NoGrad quiet;
  return transpose(Tensor(x), p.order).data();
}

// result = f(row, length) for each row.
template <class F> Array reduce_rows(const Array& x, const Plan& p, F f) {
  const Array rows = rows_of(x, p);
  Array y(p.result, x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, p.rows, grain_for(p.length), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) y.data<T>()[i] = f(rows.data<T>() + i * p.length, p.length);
    });
  });
  return y;
}

// y += x over leading axes only: adds whole rows, which needs no transposition.
Array sum_leading(const Array& x, const Plan& p) {
  Array y = Array::zeros(p.result, x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, p.rows, 4096, [&](Index begin, Index end) {
      for (Index i = 0; i < p.length; ++i)
        kernels::kernels<T>().elementwise.add_scaled(y.data<T>() + begin, x.data<T>() + i * p.rows + begin, T(1),
                                                     end - begin);
    });
  });
  return y;
}

// True if the reduced axes are the first ones.
bool leads(const Plan& p, const Shape& shape) {
  Index axis = 0;
  while (axis < shape.rank() && p.kept.dim(axis) == 1) ++axis;
  for (; axis < shape.rank(); ++axis)
    if (p.kept.dim(axis) != shape.dim(axis)) return false;
  return true;
}

// One long row: pieces of it in parallel, added in their order.
Array sum_whole(const Array& x, const Plan& p) {
  constexpr Index kPiece = 1 << 15;
  std::vector<double> parts(static_cast<std::size_t>((p.length + kPiece - 1) / kPiece));
  Array y(p.result, x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, p.length, kPiece, [&](Index begin, Index end) {
      parts[static_cast<std::size_t>(begin / kPiece)] =
          static_cast<double>(kernels::kernels<T>().elementwise.sum(x.data<T>() + begin, end - begin));
    });
    double total = 0;
    for (const double part : parts) total += part;
    *y.data<T>() = static_cast<T>(total);
  });
  return y;
}

Array summed(const Array& x, const Plan& p) {
  // With the first axis kept, each of its items is summed as it would be if there were more of them.
  const bool alike = batch_invariant() && !p.order.empty() && p.order.front() == 0;
  if (!alike && p.rows == 1 && p.length > (1 << 15)) return sum_whole(x, p);
  const bool leading_only = !alike && p.rows > 1 && p.length > 1 && leads(p, x.shape());
  if (leading_only) return sum_leading(x, p);
  return reduce_rows(x, p, [](const auto* row, Index n) {
    using T = std::remove_cvref_t<decltype(*row)>;
    return kernels::kernels<T>().elementwise.sum(row, n);
  });
}

Array scaled(const Array& x, double factor) {
  const NoGrad quiet;
  return multiply(Tensor(x), Tensor(Array::full({}, x.dtype(), factor))).data();
}

// Sums times 1 / length; where one is not finite, of numbers that are divided first: their mean can be finite.
Array averaged(const Array& x, const Plan& p) {
  const double factor = 1.0 / static_cast<double>(p.length);
  const Array y = scaled(summed(x, p), factor);
  const bool finite = visit_floating(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    return kernels::kernels<T>().weighted_values.finite(y.data<T>(), y.numel());
  });
  if (finite) return y;
  return reduce_rows(x, p, [factor](const auto* row, Index n) {
    double total = 0;
    for (Index i = 0; i < n; ++i) total += static_cast<double>(row[i]) * factor;
    return static_cast<std::remove_cvref_t<decltype(*row)>>(total);
  });
}

}  // namespace

Index checked_axis(const char* operation, Index axis, Index rank) {
  if (axis < -rank || axis >= rank)
    fail_value(operation, ": axis must be from ", -rank, " to ", rank - 1, " because the array has ", rank,
               " axes; got ", axis);
  return axis < 0 ? axis + rank : axis;
}

Tensor sum(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Plan p = plan("sum", input.shape(), axes, keepdims);
  if (!is_floating(input.dtype())) return Tensor(integer_sum(rows_of(input.data(), p), p.length, p.result));
  const Tensor& x = input;
  Array y = summed(x.data(), p);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      std::move(y), {x},
      [shape = x.shape(), kept = p.kept](const Array& dy, Gradients& dx) {
        const NoGrad quiet;
        dx.add(0, broadcast_to(Tensor(dy.reshaped(kept)), shape).data());
      },
      [kept = p.kept](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, broadcast_to(reshape(dy, kept), dx.shape(0)));
      });
}

Tensor mean(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Tensor x = floating(input);
  const Plan p = plan("mean", x.shape(), axes, keepdims);
  const double factor = 1.0 / static_cast<double>(p.length);  // the mean of nothing is NaN, as in NumPy
  Array y = p.length == 0 ? Array::full(p.result, x.dtype(), std::numeric_limits<double>::quiet_NaN())
                          : averaged(x.data(), p);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      std::move(y), {x},
      [shape = x.shape(), kept = p.kept, factor](const Array& dy, Gradients& dx) {
        const NoGrad quiet;
        dx.add(0, broadcast_to(Tensor(scaled(dy, factor).reshaped(kept)), shape).data());
      },
      [kept = p.kept, factor](const Tensor& dy, TensorGradients& dx) {
        dx.add(0, broadcast_to(reshape(scaled(dy, factor), kept), dx.shape(0)));
      });
}

Tensor max(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Plan p = plan("max", input.shape(), axes, keepdims);
  if (p.length == 0) fail_value("max: x must have at least one number on the reduced axes; got x ", input.shape());
  if (!is_floating(input.dtype()))
    return Tensor(integer_max(rows_of(input.data(), p), p.length, p.result).cast(input.dtype()));
  const Tensor& x = input;
  Array y = reduce_rows(x.data(), p, [](const auto* row, Index n) {
    auto best = row[0];
    for (Index i = 1; i < n && best == best; ++i)
      if (!(row[i] <= best)) best = row[i];  // a NaN wins, as in NumPy
    return best;
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      Array(y), {x},
      [x = Saved(x), y = Saved(y), kept = p.kept](const Array& dy, Gradients& dx) {
        const NoGrad quiet;  // equal maxima share the gradient
        const Tensor best(y.get().reshaped(kept)), values(x.get());
        const Tensor hit = cast(compare(Compare::equal, values, best), dy.dtype());
        std::optional<Axes> reduced = Axes{};
        for (Index axis = 0; axis < kept.rank(); ++axis)
          if (kept.dim(axis) != values.dim(axis)) reduced->push_back(axis);
        const Tensor share = divide(Tensor(dy.reshaped(kept)), sum(hit, reduced, true));
        dx.add(0, multiply(hit, share).data());
      },
      [axes, kept = p.kept](const Tensor& dy, TensorGradients& dx) {
        const Tensor values = dx.input(0).detach();  // which numbers are largest does not change with them
        const Tensor hit = indicator(compare(Compare::equal, values, max(values, axes, true)), dy.dtype());
        dx.add(0, multiply(divide(hit, sum(hit, axes, true)), reshape(dy, kept)));
      });
}

Tensor logsumexp(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Tensor x = floating(input);
  const Plan p = plan("logsumexp", x.shape(), axes, keepdims);
  Array y = reduce_rows(x.data(), p, [](const auto* row, Index n) {
    using T = std::remove_cvref_t<decltype(*row)>;
    T top = -std::numeric_limits<T>::infinity();
    for (Index i = 0; i < n; ++i)
      if (!(row[i] <= top)) top = row[i];
    if (!std::isfinite(top)) return top;
    double total = 0;
    for (Index i = 0; i < n; ++i) total += std::exp(static_cast<double>(row[i] - top));
    return static_cast<T>(top + std::log(total));
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      Array(y), {x},
      [x = Saved(x), y = Saved(y), kept = p.kept](const Array& dy, Gradients& dx) {
        const NoGrad quiet;  // softmax; a row of -inf alone has none
        const Tensor lse(y.get().reshaped(kept));
        const Tensor none =
            compare(Compare::equal, lse, Tensor(Array::full({}, dy.dtype(), -std::numeric_limits<double>::infinity())));
        const Tensor weights =
            unary(Unary::exponential, subtract(Tensor(x.get()), where(none, scalar_like(lse, 0), lse)));
        dx.add(0, multiply(weights, Tensor(dy.reshaped(kept))).data());
      },
      [axes, kept = p.kept](const Tensor& dy, TensorGradients& dx) {
        const Tensor& values = dx.input(0);
        const Tensor lse = logsumexp(values, axes, true), zero = scalar_like(lse, 0);
        const Tensor none = compare(Compare::equal, lse, scalar_like(lse, -std::numeric_limits<double>::infinity()));
        const Tensor weights = unary(Unary::exponential, subtract(values, where(none, zero, lse)));
        dx.add(0, multiply(weights, reshape(dy, kept)));
      });
}

}  // namespace qkv::ops
