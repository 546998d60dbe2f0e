// Along an axis, from entry to entry: running sums and products, linear recurrences.
#include <functional>

#include "ops/reductions.h"

namespace qkv::ops {

namespace {

// Numbers between two looks whether to stop, some 0.1 ms.
constexpr Index kNumbersBetweenChecks = Index{1} << 18;

// y (outer, n, inner) along n: the first entry is that of x, and run(before, at, step, rows, width) makes those that
// follow, `width` columns of them from number `at` on; `before` holds what it has made of each so far, in type U.
template <class U, class T, class Run>
void along_axis(T* y, const T* x, const StridedLoop& a, bool backwards, Run run) {
  constexpr Index kColumns = 1024;
  const Index blocks = (a.inner + kColumns - 1) / kColumns, step = backwards ? -a.inner : a.inner;
  const Index cost = a.n * std::min(a.inner, kColumns);
  parallel_for(0, a.n == 0 ? 0 : a.outer * blocks, grain_for(cost), [=](Index begin, Index end) {
    U before[kColumns];
    for (Index i = begin; i < end; ++i) {
      const Index column = i % blocks * kColumns, width = std::min(kColumns, a.inner - column);
      Index at = (i / blocks * a.n + (backwards ? a.n - 1 : 0)) * a.inner + column;
      for (Index j = 0; j < width; ++j) before[j] = static_cast<U>(y[at + j] = x[at + j]);
      for (Index left = a.n - 1, rows; left > 0; left -= rows, at += rows * step) {
        rows = std::min(left, std::max<Index>(1, kNumbersBetweenChecks / width));
        throw_if_interrupted();
        run(before, at + step, step, rows, width);
      }
    }
  });
}

// The same of whole numbers, which wrap: f(before, x) gives the next.
template <class F> void along_integers(const Array& y, const Array& x, const StridedLoop& a, bool backwards, F f) {
  using I = std::int64_t;
  using U = std::uint64_t;
  I* to = y.data<I>();
  const I* from = x.data<I>();
  along_axis<U>(to, from, a, backwards, [=](U* before, Index at, Index step, Index rows, Index width) {
    for (; rows > 0; --rows, at += step)
      for (Index j = 0; j < width; ++j)
        to[at + j] = static_cast<I>(before[j] = f(before[j], static_cast<U>(from[at + j])));
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
  const StridedLoop along(x.shape(), axis);
  Array y(x.shape(), numbers.dtype());
  if (numbers.dtype() == DType::int64) {
    along_integers(y, numbers, along, backwards, std::plus<>());
    return Tensor(std::move(y));
  }
  visit_floating(y.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    const T* from = numbers.data<T>();
    along_axis<double>(to, from, along, backwards, [=](double* before, Index at, Index step, Index rows, Index width) {
      kernels::kernels<T>().scan.sums(to + at, before, from + at, step, rows, width);
    });
  });
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
  Array y(a.shape(), a.dtype());
  visit_floating(y.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    const T *added = a.ptr<T>(), *factor = b.ptr<T>();
    along_axis<double>(to, added, StridedLoop(a.shape(), axis), backwards,
                       [=](double* before, Index at, Index step, Index rows, Index width) {
                         kernels::kernels<T>().scan.linear(to + at, before, added + at, factor + at, step, rows, width);
                       });
  });
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
  const StridedLoop along(x.shape(), axis);
  Array y(x.shape(), x.dtype());
  if (y.dtype() == DType::int64) {
    along_integers(y, x.data(), along, false, std::multiplies<>());
    return Tensor(std::move(y));
  }
  visit_floating(y.dtype(), [&]<class T>(T) {
    T* to = y.data<T>();
    const T* from = x.ptr<T>();
    along_axis<double>(to, from, along, false, [=](double* before, Index at, Index step, Index rows, Index width) {
      kernels::kernels<T>().scan.products(to + at, before, from + at, step, rows, width);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  // What flows to entry i: dy[i] + x[i + 1] (dy[i + 1] + ...); no division, so that zeros are entries like others.
  return record(std::move(y), {x}, [x = Saved(x), y = Saved(y), axis](const Tensor& dy, TensorGradients& dx) {
    const Tensor rest = linear_scan(dy, shifted(x.tensor(), axis, true, 0), axis, true);
    dx.add(0, times(rest, shifted(dx.output(y), axis, false, 1)));
  });
}

}  // namespace qkv::ops
