// Sums, means, maxima and log-sum-exp over axes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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
  Shape kept;    // with 1 for each reduced axis
  Shape result;  // as the caller wants it
  Axes order;    // permutation that brings the reduced axes to the end
  std::vector<bool> reduced;
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
  p.reduced = std::move(reduced);
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

// The last run of neighbouring axes to be reduced, as the middle axis of (outer, n, inner).
struct Run {
  Index outer = 1, n = 1, inner = 1;
  std::size_t begin = 0, end = 0;  // axes; equal if there is none

  Run(const Shape& shape, const std::vector<bool>& reduced) {
    const auto kept = [&](std::size_t axis) { return !reduced[axis] && shape[axis] != 1; };
    end = shape.size();
    while (end > 0 && !reduced[end - 1]) inner *= shape[--end];
    begin = end;
    while (begin > 0 && !kept(begin - 1)) n *= shape[--begin];
    for (std::size_t axis = 0; axis < begin; ++axis) outer *= shape[axis];
  }
};

// One run of axes after the other, from the last, each in its own order, by the two kernels that `choose` takes from
// the table, of rows(y, x, count, n) and of columns(y, x, step, n, width). Nothing is transposed.
template <class Choose> Array reduced(const Array& input, const Plan& p, Choose choose) {
  std::vector<bool> left(p.reduced);
  Shape shape = input.shape();
  Array x = input;
  for (Run run(shape, left); run.begin < run.end; run = Run(shape, left)) {
    for (std::size_t axis = run.begin; axis < run.end; ++axis) {
      shape[axis] = 1;
      left[axis] = false;
    }
    Array y(shape, x.dtype());
    visit_floating(x.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const auto kernel = choose(kernels::kernels<T>());
      T* to = y.data<T>();
      const T* from = x.data<T>();
      if (run.inner == 1) {
        parallel_for(0, run.outer, grain_for(run.n), [&](Index begin, Index end) {
          kernel.first(to + begin, from + begin * run.n, end - begin, run.n);
        });
        return;
      }
      constexpr Index kColumns = 4096;
      const Index blocks = (run.inner + kColumns - 1) / kColumns;
      parallel_for(0, run.outer * blocks, grain_for(run.n * std::min(run.inner, kColumns)),
                   [&](Index begin, Index end) {
                     for (Index i = begin; i < end; ++i) {
                       const Index outer = i / blocks, column = i % blocks * kColumns;
                       kernel.second(to + outer * run.inner + column, from + outer * run.n * run.inner + column,
                                     run.inner, run.n, std::min(kColumns, run.inner - column));
                     }
                   });
    });
    x = std::move(y);
  }
  return (x.buffer() == input.buffer() ? x.clone() : x).reshaped(p.result);
}

// One long row in pieces for the pool: part(piece of x, length) of each, in order, and the whole of them.
constexpr Index kPiece = 1 << 15;
bool is_long_row(const Plan& p) { return p.rows == 1 && p.length > kPiece; }

template <class Part> void each_piece(const Array& x, Part part) {
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, x.numel(), kPiece, [&](Index begin, Index end) {
      for (Index i = begin; i < end; i += kPiece) part(i / kPiece, x.data<T>() + i, std::min(kPiece, end - i));
    });
  });
}

std::size_t pieces_of(const Array& x) { return static_cast<std::size_t>((x.numel() + kPiece - 1) / kPiece); }

Array summed(const Array& x, const Plan& p) {
  // With the first axis kept, each of its items is summed as it would be if there were more of them.
  const bool alike = batch_invariant() && !p.reduced.empty() && !p.reduced.front();
  if (!alike && is_long_row(p)) {
    std::vector<double> parts(pieces_of(x));
    each_piece(x, [&](Index piece, const auto* from, Index n) {
      using T = std::remove_cvref_t<decltype(*from)>;
      parts[static_cast<std::size_t>(piece)] = static_cast<double>(kernels::kernels<T>().reduce.sum(from, n));
    });
    double total = 0;
    for (const double part : parts) total += part;
    return Array::full(p.result, x.dtype(), total);
  }
  return reduced(x, p, [](const auto& k) { return std::pair(k.reduce.sum_of_rows, k.reduce.sum_of_columns); });
}

Array largest(const Array& x, const Plan& p) {
  if (is_long_row(p)) {
    Array parts({static_cast<Index>(pieces_of(x))}, x.dtype());
    each_piece(x, [&](Index piece, const auto* from, Index n) {
      using T = std::remove_cvref_t<decltype(*from)>;
      kernels::kernels<T>().reduce.max_of_rows(parts.data<T>() + piece, from, 1, n);
    });
    return largest(parts, plan("max", parts.shape(), {}, false)).reshaped(p.result);
  }
  return reduced(x, p, [](const auto& k) { return std::pair(k.reduce.max_of_rows, k.reduce.max_of_columns); });
}

Array log_sum_exp(const Array& x, const Plan& p) {
  return reduced(x, p, [](const auto& k) { return std::pair(k.softmax.logsumexp, k.softmax.logsumexp_columns); });
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
  Array y = largest(x.data(), p);
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
  Array y = log_sum_exp(x.data(), p);
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
