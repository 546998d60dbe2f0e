// Variances, products, running sums.
#include "ops/integers.h"
#include "ops/reductions.h"

namespace qkv::ops {

Tensor root(const Tensor& square) {
  if (!wants_gradient({square})) return unary(Unary::square_root, square);
  const Tensor zero = scalar_like(square, 0), none = compare(Compare::equal, square, zero);
  return where(none, zero, unary(Unary::square_root, where(none, scalar_like(square, 1), square)));
}

namespace {

// x squared where it stands: nobody else holds it.
Tensor squared(const Tensor& x) {
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
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

Tensor deviation(const Tensor& x, const std::optional<Axes>& axes, bool keepdims, double ddof) {
  return root(variance(x, axes, keepdims, ddof));
}

namespace {

// dx (rows, n) = dy times the product of the others in its row, which is right for rows with zeros, too.
template <class T> void product_slopes(T* dx, const T* dy, const T* x, Index rows, Index n) {
  parallel_for(0, rows, grain_for(4 * n), [=](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const T* numbers = x + row * n;
      T* slopes = dx + row * n;
      double before = 1, behind = 1;
      for (Index i = 0; i < n; before *= static_cast<double>(numbers[i++])) slopes[i] = static_cast<T>(before);
      for (Index i = n; i-- > 0; behind *= static_cast<double>(numbers[i]))
        slopes[i] = dy[row] == 0 ? T(0) : static_cast<T>(static_cast<double>(slopes[i]) * behind) * dy[row];
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
  if (!is_floating(input.dtype())) return Tensor(integer_product(rows_of(input.data(), p), p.length, p.result));
  const Tensor x = packed(input);
  Array y = reduced(x.data(), p,
                    [](const auto& k) { return std::pair(k.reduce.product_of_rows, k.reduce.product_of_columns); });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record_fused(
      std::move(y), {x},
      [p, x = Saved(x)](const Array& dy, Gradients& dx) {
        const Array rows = rows_of(x.get(), p);
        Array slopes(rows.shape(), rows.dtype());
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          product_slopes(slopes.data<T>(), dy.data<T>(), rows.data<T>(), p.rows, p.length);
        });
        dx.add(0, from_rows(slopes, p, x.get().shape()));
      },
      [p](const Tensor& dy, TensorGradients& dx) {
        derive_composed({&dy, 1}, dx, [&](const Tensors& inputs) -> Tensors {
          if (p.length == 0) return {Tensor(Array::full(p.result, inputs[0].dtype(), 1.0))};
          return {reshape(product_by_pairs(reshape(transpose(inputs[0], p.order), {p.rows, p.length})), p.result)};
        });
      });
}

namespace {

// Numbers between two looks whether to stop, some 0.1 ms.
constexpr Index kBetweenChecks = Index{1} << 18;

// y (outer, n, inner): running sums of x along n. U is T, or unsigned where sums of integers wrap.
template <class T, class U> void running_sums(T* y, const T* x, Index outer, Index n, Index inner, bool backwards) {
  const Index step = backwards ? -inner : inner,
              between = std::max<Index>(1, kBetweenChecks / std::max<Index>(inner, 1));
  parallel_for(0, n == 0 ? 0 : outer, grain_for(n * inner), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index first = (i * n + (backwards ? n - 1 : 0)) * inner;
      const T* from = x + first;
      T* to = y + first;
      if (inner == 1) {  // the sum stays in a register
        U total = static_cast<U>(from[0]);
        to[0] = from[0];
        for (Index k = 1; k < n;) {
          for (const Index stop = std::min(n, k + kBetweenChecks); k < stop; ++k)
            to[k * step] = static_cast<T>(total += static_cast<U>(from[k * step]));
          throw_if_interrupted();
        }
        continue;
      }
      std::copy_n(from, inner, to);
      for (Index k = 1; k < n; ++k) {
        if (k % between == 0) throw_if_interrupted();
        from += step;
        to += step;
        if constexpr (std::is_same_v<T, U>)
          kernels::kernels<T>().elementwise.binary(Binary::add, to, to - step, 1, from, 1, inner);
        else
          for (Index j = 0; j < inner; ++j)
            to[j] = static_cast<T>(static_cast<U>(to[j - step]) + static_cast<U>(from[j]));
      }
    }
  });
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, Index axis, bool backwards) {
  axis = checked_axis("cumsum", axis, x.rank());
  const Array numbers = x.dtype() == DType::boolean ? packed(x.data()).cast(DType::int64) : packed(x.data());
  const Index outer = x.shape().product(0, axis), n = x.dim(axis), inner = x.shape().product(axis + 1, x.rank());
  Array y(x.shape(), numbers.dtype());
  if (numbers.dtype() == DType::int64) {
    using I = std::int64_t;
    running_sums<I, std::uint64_t>(y.data<I>(), numbers.data<I>(), outer, n, inner, backwards);
    return Tensor(std::move(y));
  }
  visit_floating(y.dtype(), [&](auto tag) {
    using T = decltype(tag);
    running_sums<T, T>(y.data<T>(), numbers.data<T>(), outer, n, inner, backwards);
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [axis, backwards](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, cumulative_sum(dy, axis, !backwards));
  });
}

}  // namespace qkv::ops
