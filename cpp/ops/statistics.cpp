// Variances, norms, products.
#include <cmath>

#include "ops/integers.h"
#include "ops/moments.h"

namespace qkv::ops {

Tensor safe_sqrt(const Tensor& square) {
  if (!wants_gradient({square})) return unary(Unary::square_root, square);
  const Tensor zero = scalar_like(square, 0), none = compare(Compare::equal, square, zero);
  return where(none, zero, unary(Unary::square_root, where(none, scalar_like(square, 1), square)));
}

namespace {

// x less its mean, whose rounding the mean of the distances makes good.
Tensor from_mean(const Tensor& x, const std::optional<Axes>& axes) {
  const Tensor distance = subtract(x, mean(x, axes, true));
  return subtract(distance, mean(distance, axes, true));
}

// x / size, 0 where the size is.
Tensor relative_to(const Tensor& size, const Tensor& x) {
  const Tensor zero = scalar_like(size, 0), none = compare(Compare::equal, size, zero);
  return where(none, zero, divide(x, where(none, scalar_like(size, 1), size)));
}

}  // namespace

Tensor variance(const Tensor& input, const std::optional<Axes>& axes, bool keepdims, double ddof) {
  const Tensor x = wants_gradient({input}) ? floating(input) : unrepeated(input);
  const ReducedAxes p = reduced_axes("var", x.shape(), axes, keepdims);
  Array y = distances(x.data(), p, Distance::variance, ddof);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const double factor = 2 / std::max(0.0, static_cast<double>(p.length) - ddof);
  return record(std::move(y), {x}, [x = Saved(x), axes, factor, kept = p.kept](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, times(scaled(reshape(dy, kept), factor), from_mean(x.tensor(), axes)));
  });
}

Tensor stddev(const Tensor& input, const std::optional<Axes>& axes, bool keepdims, double ddof) {
  const Tensor x = wants_gradient({input}) ? floating(input) : unrepeated(input);
  const ReducedAxes p = reduced_axes("std", x.shape(), axes, keepdims);
  Array y = distances(x.data(), p, Distance::stddev, ddof);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const double factor = 1 / std::max(0.0, static_cast<double>(p.length) - ddof);
  return record(Array(y), {x},
                [x = Saved(x), y = Saved(y), axes, factor, kept = p.kept](const Tensor& dy, TensorGradients& dx) {
                  const Tensor relative = relative_to(reshape(dx.output(y), kept), from_mean(x.tensor(), axes));
                  dx.add(0, times(scaled(reshape(dy, kept), factor), relative));
                });
}

Tensor vector_norm(const Tensor& input, double order, const std::optional<Axes>& axes, bool keepdims) {
  const Tensor x = order == 2 && !wants_gradient({input}) ? unrepeated(input) : floating(input);
  if (order == 1) return sum(unary(Unary::absolute, x), axes, keepdims);
  if (std::isinf(order)) return (order > 0 ? max : min)(unary(Unary::absolute, x), axes, keepdims);
  const ReducedAxes p = reduced_axes("norm", x.shape(), axes, keepdims);
  if (order == 2) {
    Array y = distances(x.data(), p, Distance::length);
    if (!wants_gradient({x})) return Tensor(std::move(y));
    return record(Array(y), {x}, [x = Saved(x), y = Saved(y), kept = p.kept](const Tensor& dy, TensorGradients& dx) {
      dx.add(0, times(reshape(dy, kept), relative_to(reshape(dx.output(y), kept), x.tensor())));
    });
  }
  // Of numbers that the largest (of a negative order the smallest) divides: powers may leave the range.
  const Tensor sizes = unary(Unary::absolute, x), one = scalar_like(x, 1);
  Tensor unit = one;
  if (p.length > 0) {
    const NoGrad quiet;
    unit = (order > 0 ? max : min)(sizes, axes, true);
    const Tensor inverse = divide(one, unit), usable = compare(Compare::less, multiply(unit, inverse), scaled(one, 2));
    unit = where(usable, unit, one);
  }
  const Tensor total = sum(binary(Binary::power, divide(sizes, unit), scalar_like(x, order)), axes, keepdims);
  const Tensor zero = scalar_like(x, 0), none = compare(Compare::equal, total, zero);
  const Tensor length = binary(Binary::power, where(none, one, total), scalar_like(x, 1 / order));
  return where(none, zero, multiply(length, unit.numel() == 1 ? unit : reshape(unit, p.result)));
}

namespace {

// dx (rows, n) = dy times the product of the others in its row, which is right for rows with zeros, too.
template <class T> void product_gradients(T* dx, const T* dy, const T* x, Index rows, Index n) {
  parallel_for(0, rows, grain_for(4 * n), [=](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const T* numbers = x + row * n;
      T* gradients = dx + row * n;
      double before = 1, behind = 1;
      for (Index i = 0; i < n; before *= static_cast<double>(numbers[i++])) gradients[i] = static_cast<T>(before);
      for (Index i = n; i-- > 0; behind *= static_cast<double>(numbers[i]))
        gradients[i] = dy[row] == 0 ? T(0) : static_cast<T>(static_cast<double>(gradients[i]) * behind) * dy[row];
    }
  });
}

// The product of each row (rows, n) in pairs, pairs of pairs, ...
Tensor product_by_pairs(Tensor rows) {
  while (rows.dim(1) > 1) {
    const Index n = rows.dim(1), half = n / 2;
    const Tensor pairs = multiply(slice(rows, 1, 0, half), slice(rows, 1, half, 2 * half));
    rows = n == 2 * half ? pairs : concatenate({pairs, slice(rows, 1, 2 * half, n)}, 1);
  }
  return rows;
}

}  // namespace

Tensor product(const Tensor& input, const std::optional<Axes>& axes, bool keepdims) {
  const ReducedAxes p = reduced_axes("prod", input.shape(), axes, keepdims);
  if (!is_floating(input.dtype())) return Tensor(integer_product(input.data(), p));
  const Tensor x = wants_gradient({input}) ? packed(input) : unrepeated(input);
  Array y = reduced(x.data(), p,
                    [](const auto& k) { return std::pair(k.reduce.product_of_rows, k.reduce.product_of_columns); });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record_fused(
      std::move(y), {x},
      [p](const Array& dy, Gradients& dx) {
        const Array rows = rows_of(dx.input(0), p);
        Array gradients(rows.shape(), rows.dtype());
        visit_floating(dy.dtype(), [&]<class T>(T) {
          product_gradients(gradients.data<T>(), dy.data<T>(), rows.data<T>(), p.rows, p.length);
        });
        dx.add(0, from_rows(gradients, p, dx.input(0).shape()));
      },
      derived_from([p](const Tensors& inputs) {
        if (p.length == 0) return Tensor(Array::full(p.result, inputs[0].dtype(), 1.0));
        return reshape(product_by_pairs(reshape(transpose(inputs[0], p.order), {p.rows, p.length})), p.result);
      }));
}

}  // namespace qkv::ops
