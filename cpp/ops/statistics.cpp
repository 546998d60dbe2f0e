// Variances, products, running sums.
#include "ops/integers.h"
#include "ops/reductions.h"

namespace qkv::ops {

Tensor safe_sqrt(const Tensor& square) {
  if (!wants_gradient({square})) return unary(Unary::square_root, square);
  const Tensor zero = scalar_like(square, 0), none = compare(Compare::equal, square, zero);
  return where(none, zero, unary(Unary::square_root, where(none, scalar_like(square, 1), square)));
}

namespace {

// x squared where it stands: nobody else holds it.
Tensor squared(const Tensor& x) {
  visit_floating(x.dtype(), [&]<class T>(T) {
    T* numbers = x.ptr<T>();
    parallel_for(0, x.numel(), grain_for(1), [=](Index begin, Index end) {
      kernels::kernels<T>().elementwise.binary(Binary::multiply, numbers + begin, numbers + begin, 1, numbers + begin,
                                               1, end - begin);
    });
  });
  return x;
}

}  // namespace

Tensor variance(const Tensor& input, const std::optional<Axes>& axes, bool keepdims, double ddof) {
  const Tensor x = floating(input);
  const ReducedAxes p = reduced_axes("var", x.shape(), axes, keepdims);
  const Tensor distance = subtract(x, mean(x, axes, true));
  const Tensor squares = sum(wants_gradient({x}) ? multiply(distance, distance) : squared(distance), axes, keepdims);
  return divide(squares, scalar_like(squares, std::max(0.0, static_cast<double>(p.length) - ddof)));
}

Tensor stddev(const Tensor& x, const std::optional<Axes>& axes, bool keepdims, double ddof) {
  return safe_sqrt(variance(x, axes, keepdims, ddof));
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
  const Tensor x = packed(input);
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
