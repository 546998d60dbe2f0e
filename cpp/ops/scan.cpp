// Along an axis, from entry to entry: running sums and products, linear recurrences.
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {

namespace {

// Numbers between two looks whether to stop, some 0.1 ms.
constexpr Index kNumbersBetweenChecks = Index{1} << 18;

// y (outer, n, inner): running sums of x along n. U is T, or unsigned where sums of integers wrap.
template <class T, class U> void running_sums(T* y, const T* x, Index outer, Index n, Index inner, bool backwards) {
  const Index step = backwards ? -inner : inner,
              between = std::max<Index>(1, kNumbersBetweenChecks / std::max<Index>(inner, 1));
  parallel_for(0, n == 0 ? 0 : outer, grain_for(n * inner), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index first = (i * n + (backwards ? n - 1 : 0)) * inner;
      const T* from = x + first;
      T* to = y + first;
      if (inner == 1) {  // the sum stays in a register
        U total = static_cast<U>(from[0]);
        to[0] = from[0];
        for (Index k = 1; k < n;) {
          for (const Index stop = std::min(n, k + kNumbersBetweenChecks); k < stop; ++k)
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

// y (outer, n, inner): running products of x along n.
template <class T> void running_products(T* y, const T* x, Index outer, Index n, Index inner) {
  using U = std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, T>;
  parallel_for(0, n == 0 ? 0 : outer, grain_for(n * inner), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const T* from = x + i * n * inner;
      T* to = y + i * n * inner;
      throw_if_interrupted();
      if (inner == 1) {  // the product stays in a register
        U total{1};
        for (Index k = 0; k < n; ++k) to[k] = static_cast<T>(total *= static_cast<U>(from[k]));
        continue;
      }
      std::copy_n(from, inner, to);
      for (Index k = inner; k < n * inner; ++k)
        to[k] = static_cast<T>(static_cast<U>(to[k - inner]) * static_cast<U>(from[k]));
    }
  });
}

// y (outer, n, inner): y = a + b y of the entry before along n, or behind.
template <class T> void scanned(T* y, const T* a, const T* b, Index outer, Index n, Index inner, bool backwards) {
  const Index step = backwards ? -inner : inner;
  parallel_for(0, n == 0 ? 0 : outer, grain_for(n * inner), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      Index at = (i * n + (backwards ? n - 1 : 0)) * inner;
      std::copy_n(a + at, inner, y + at);
      throw_if_interrupted();
      for (Index k = 1; k < n; ++k) {
        at += step;
        for (Index j = at; j < at + inner; ++j) y[j] = a[j] + b[j] * y[j - step];
      }
    }
  });
}

// x with its entries moved by one place along an axis, to later places or (backwards) earlier ones; the first or last
// is `value`.
Tensor shifted(const Tensor& x, Index axis, bool backwards, double value) {
  const Index n = x.dim(axis);
  if (n == 0) return x;
  IndexList before(x.shape().size(), 0), behind(x.shape().size(), 0);
  (backwards ? behind : before)[static_cast<std::size_t>(axis)] = 1;
  return pad(backwards ? slice(x, axis, 1, n) : slice(x, axis, 0, n - 1), before, behind, scalar_like(x, value));
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
  visit_floating(y.dtype(),
                 [&]<class T>(T) { running_sums<T, T>(y.data<T>(), numbers.data<T>(), outer, n, inner, backwards); });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [axis, backwards](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, cumulative_sum(dy, axis, !backwards));
  });
}

Tensor linear_scan(const Tensor& first, const Tensor& second, Index axis, bool backwards) {
  const Tensor a = packed(first), b = packed(second);
  axis = checked_axis("linear_scan", axis, a.rank());
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    fail_value("linear_scan: a and b must be of one shape and dtype; got ", a.shape(), " of ", a.dtype(), " and ",
               b.shape(), " of ", b.dtype());
  const Index outer = a.shape().product(0, axis), n = a.dim(axis), inner = a.shape().product(axis + 1, a.rank());
  Array y(a.shape(), a.dtype());
  visit_floating(y.dtype(),
                 [&]<class T>(T) { scanned(y.data<T>(), a.ptr<T>(), b.ptr<T>(), outer, n, inner, backwards); });
  if (!wants_gradient({a, b})) return Tensor(std::move(y));
  return record(std::move(y), {a, b},
                [b = Saved(b), y = Saved(y), axis, backwards](const Tensor& dy, TensorGradients& dx) {
                  const Tensor da = linear_scan(dy, shifted(b.tensor(), axis, !backwards, 0), axis, !backwards);
                  dx.add(0, da);
                  dx.add(1, [&] { return times(da, shifted(dx.output(y), axis, backwards, 0)); });
                });
}

Tensor cumulative_product(const Tensor& given, Index axis) {
  const Tensor x = packed(given.dtype() == DType::boolean ? cast(given, DType::int64) : given);
  axis = checked_axis("cumprod", axis, x.rank());
  const Index outer = x.shape().product(0, axis), n = x.dim(axis), inner = x.shape().product(axis + 1, x.rank());
  Array y(x.shape(), x.dtype());
  visit_any(y.dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, bool>) running_products(y.data<T>(), x.ptr<T>(), outer, n, inner);
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  // What flows to entry i: dy[i] + x[i + 1] (dy[i + 1] + ...); no division, so that zeros are entries like others.
  return record(std::move(y), {x}, [x = Saved(x), y = Saved(y), axis](const Tensor& dy, TensorGradients& dx) {
    const Tensor rest = linear_scan(dy, shifted(x.tensor(), axis, true, 0), axis, true);
    dx.add(0, times(rest, shifted(dx.output(y), axis, false, 1)));
  });
}

}  // namespace qkv::ops
