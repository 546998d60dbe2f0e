// Sparse relatives of the softmax: p = max((alpha - 1) x - tau, 0)^(1 / (alpha - 1)) with the tau that makes the sum 1.
#include "ops/entmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv::ops {
namespace {

// The numbers of a row that may have weight, less the largest and times alpha - 1: those above -1.
struct Candidates {
  std::vector<double> z;
  double exponent;  // 1 / (alpha - 1)

  std::vector<double> weights;

  // Numbers that are so much above tau, 0 for those that are not, become weights.
  void become_weights(std::vector<double>& above) const {
    const auto n = static_cast<Index>(above.size());
    const auto& kernel = kernels::kernels<double>().elementwise;
    if (exponent == 1) return;
    if (exponent == 2) kernel.binary(kernels::Binary::multiply, above.data(), above.data(), 1, above.data(), 1, n);
    else kernel.binary(kernels::Binary::power, above.data(), above.data(), 1, &exponent, 0, n);
  }
  double excess(double tau) {
    weights.clear();
    for (const double x : z) weights.push_back(std::max(x - tau, 0.0));
    become_weights(weights);
    return std::accumulate(weights.begin(), weights.end(), -1.0);
  }
  // Where the weights sum to 1. The excess falls with tau, from 0 or more at -1 to -1 at 0.
  double tau() { return exponent >= 1 ? by_newton() : by_bisection(); }

  // For alpha up to 2 the excess is convex: steps from below stay below.
  double by_newton() {
    double tau = -1;
    for (int step = 0; step < 100; ++step) {
      const double sum = excess(tau);
      double derivative = 0;
      for (std::size_t i = 0; i < z.size(); ++i)
        if (z[i] > tau) derivative += exponent * weights[i] / (z[i] - tau);
      const double next = tau + sum / derivative;
      if (!(sum > 0) || !(next > tau)) break;
      tau = next;
    }
    return tau;
  }
  double by_bisection() {
    double low = -1, high = 0;
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (excess(middle) > 0 ? low : high) = middle;
    }
    return low;
  }
};

template <class T> void entmax_of_row(T* y, const T* x, Index n, double alpha, Candidates& candidates) {
  double largest = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < n; ++i)
    if (!(static_cast<double>(x[i]) <= largest) && !std::isnan(largest)) largest = static_cast<double>(x[i]);
  if (!std::isfinite(largest)) {  // as softmax does: no finite largest number, no weights
    std::fill_n(y, n, std::numeric_limits<T>::quiet_NaN());
    return;
  }
  candidates.z.clear();
  const auto scaled = [&](Index i) { return (alpha - 1) * (static_cast<double>(x[i]) - largest); };
  for (Index i = 0; i < n; ++i)
    if (scaled(i) > -1) candidates.z.push_back(scaled(i));
  const double tau = candidates.tau(), total = 1 + candidates.excess(tau);
  std::vector<double>& p = candidates.weights;
  p.clear();
  for (Index i = 0; i < n; ++i) p.push_back(std::max(scaled(i) - tau, 0.0));
  candidates.become_weights(p);
  for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(p[static_cast<std::size_t>(i)] / total);
}

}  // namespace

Tensor entmax(const char* name, const Tensor& given, double alpha, Index axis) {
  if (!(alpha >= 1) || !std::isfinite(alpha)) fail_value(name, ": alpha must be a number of at least 1; got ", alpha);
  if (given.rank() == 0)  // one number, as a row of one
    return reshape(entmax(name, reshape(given, {1}), alpha, axis), {});
  axis = checked_axis(name, axis, given.rank());
  if (alpha == 1) return softmax(given, axis, 1);
  if (axis != given.rank() - 1) return swapaxes(entmax(name, swapaxes(given, axis, -1), alpha, -1), axis, -1);
  const Tensor x = floating(given);
  const Index n = x.dim(-1), rows = n == 0 ? 0 : x.numel() / n;
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, rows, grain_for(16 * n), [&](Index begin, Index end) {
      Candidates candidates{{}, 1 / (alpha - 1), {}};
      for (Index row = begin; row < end; ++row)
        entmax_of_row(y.data<T>() + row * n, x.ptr<T>() + row * n, n, alpha, candidates);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  // dx = s (dy - sum(s dy) / sum(s)) with s = p^(2 - alpha) where p is not 0.
  return record(Array(y), {x}, [y = Saved(y), alpha](const Tensor& dy, TensorGradients& dx) {
    const Tensor p = dx.output(y), zero = scalar_like(p, 0), one = scalar_like(p, 1);
    const Tensor has_weight = compare(Compare::greater, p, zero);
    Tensor s = indicator(has_weight, p.dtype());
    if (alpha != 2)
      s = where(has_weight, binary(Binary::power, where(has_weight, p, one), scalar_like(p, 2 - alpha)), zero);
    const Tensor arriving = where(has_weight, dy, zero);
    const Tensor mean = divide(sum(multiply(s, arriving), Axes{-1}, true), sum(s, Axes{-1}, true));
    dx.add(0, multiply(s, subtract(arriving, mean)));
  });
}

Tensor entmax(const Tensor& x, double alpha, Index axis) { return entmax("entmax", x, alpha, axis); }

}  // namespace qkv::ops
