// Sums, means, extremes and log-sum-exp over axes.
#include <cmath>
#include <limits>
#include <utility>

#include "ops/integers.h"
#include "ops/reductions.h"

namespace qkv::ops {
namespace {

// result = f(row, length) for each row.
template <class F> Array reduce_rows(const Array& x, const ReducedAxes& p, F f) {
  const Array rows = rows_of(x, p);
  Array y(p.result, x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, p.rows, grain_for(p.length), [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) y.data<T>()[i] = f(rows.data<T>() + i * p.length, p.length);
    });
  });
  return y;
}

Array summed(const Array& x, const ReducedAxes& p) {
  if (!repeats_numbers(x) && !keeps_items_alike(p) && is_long_row(p)) {
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

const char* name_of_extreme(bool largest) { return largest ? "max" : "min"; }

Array extreme_numbers(const Array& x, const ReducedAxes& p, bool largest) {
  const auto choose = [largest](const auto& k) {
    return largest ? std::pair(k.reduce.max_of_rows, k.reduce.max_of_columns)
                   : std::pair(k.reduce.min_of_rows, k.reduce.min_of_columns);
  };
  if (!repeats_numbers(x) && is_long_row(p)) {
    Array parts({static_cast<Index>(pieces_of(x))}, x.dtype());
    each_piece(x, [&](Index piece, const auto* from, Index n) {
      using T = std::remove_cvref_t<decltype(*from)>;
      choose(kernels::kernels<T>()).first(parts.data<T>() + piece, from, 1, n);
    });
    return extreme_numbers(parts, reduced_axes(name_of_extreme(largest), parts.shape(), {}, false), largest)
        .reshaped(p.result);
  }
  return reduced(x, p, choose);
}

Array log_sum_exp(const Array& x, const ReducedAxes& p) {
  return reduced(x, p, [](const auto& k) { return std::pair(k.softmax.logsumexp, k.softmax.logsumexp_columns); });
}

Array scaled_array(const Array& x, double factor) {
  const NoGrad quiet;
  return multiply(Tensor(x), Tensor(Array::full({}, x.dtype(), factor))).data();
}

// Sums times 1 / length; where one is not finite, of numbers that are divided first: their mean can be finite.
Array averaged(const Array& x, const ReducedAxes& p) {
  const double factor = 1.0 / static_cast<double>(p.length);
  const Array y = scaled_array(summed(x, p), factor);
  const bool finite = visit_floating(
      y.dtype(), [&]<class T>(T) { return kernels::kernels<T>().weighted_values.finite(y.data<T>(), y.numel()); });
  if (finite) return y;
  return reduce_rows(x, p, [factor](const auto* row, Index n) {
    double total = 0;
    for (Index i = 0; i < n; ++i) total += static_cast<double>(row[i]) * factor;
    return static_cast<std::remove_cvref_t<decltype(*row)>>(total);
  });
}

}  // namespace

Tensor sum(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const ReducedAxes p = reduced_axes("sum", input.shape(), axes, keepdims);
  if (!is_floating(input.dtype())) return Tensor(integer_sum(input.data(), p));
  const Tensor x = unrepeated(input);
  Array y = summed(x.data(), p);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [kept = p.kept](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, broadcast_to(reshape(dy, kept), dx.shape(0)));
  });
}

Tensor mean(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Tensor x = unrepeated(input);
  const ReducedAxes p = reduced_axes("mean", x.shape(), axes, keepdims);
  const double factor = 1.0 / static_cast<double>(p.length);  // the mean of nothing is NaN, as in NumPy
  Array y = p.length == 0 ? Array::full(p.result, x.dtype(), std::numeric_limits<double>::quiet_NaN())
                          : averaged(x.data(), p);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [kept = p.kept, factor](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, broadcast_to(reshape(scaled(dy, factor), kept), dx.shape(0)));
  });
}

namespace {

Tensor extreme(const Tensor& input, const std::optional<Axes>& axes, bool keepdims, bool largest) {
  const ReducedAxes p = reduced_axes(name_of_extreme(largest), input.shape(), axes, keepdims);
  if (p.length == 0)
    fail_value(name_of_extreme(largest), ": x must have at least one number on the reduced axes; got x ",
               input.shape());
  if (!is_floating(input.dtype())) return Tensor(integer_extreme(largest, input.data(), p).cast(input.dtype()));
  const Tensor x = wants_gradient({input}) ? packed(input) : unrepeated(input);
  Array y = extreme_numbers(x.data(), p, largest);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(Array(y), {x},
                [x = Saved(x.data()), y = Saved(y), kept = p.kept](const Tensor& dy, TensorGradients& dx) {
                  const Tensor best(y.get().reshaped(kept)), values = x.tensor();  // equal extremes share the gradient
                  const Tensor hit = cast(compare(Compare::equal, values, best), dy.dtype());
                  std::optional<Axes> reduced = Axes{};
                  for (Index axis = 0; axis < kept.rank(); ++axis)
                    if (kept.dim(axis) != values.dim(axis)) reduced->push_back(axis);
                  const Tensor share = divide(reshape(dy, kept), sum(hit, reduced, true));
                  dx.add(0, where(hit, share, scalar_like(dy, 0)));
                });
}

}  // namespace

Tensor max(const Tensor& x, const std::optional<Axes>& axes, bool keepdims) { return extreme(x, axes, keepdims, true); }

Tensor min(const Tensor& x, const std::optional<Axes>& axes, bool keepdims) {
  return extreme(x, axes, keepdims, false);
}

Tensor logsumexp(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const Tensor x = wants_gradient({input}) ? floating(input) : unrepeated(input);
  const ReducedAxes p = reduced_axes("logsumexp", x.shape(), axes, keepdims);
  Array y = log_sum_exp(x.data(), p);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(Array(y), {x}, [x = Saved(x), y = Saved(y), kept = p.kept](const Tensor& dy, TensorGradients& dx) {
    const Tensor lse = reshape(dx.output(y), kept);  // softmax; a row of -inf alone has none
    const Tensor none = compare(Compare::equal, lse, scalar_like(lse, -std::numeric_limits<double>::infinity()));
    const Tensor weights = unary(Unary::exponential, subtract(x.tensor(), where(none, scalar_like(lse, 0), lse)));
    dx.add(0, times(reshape(dy, kept), weights));
  });
}

}  // namespace qkv::ops
