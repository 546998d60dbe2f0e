// One number or another: where, clip.
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/runs.h"

namespace qkv::ops {

// y = c ? p : q; integers as their bits.
template <class T>
static void choose_between(T* y, const bool* c, Index sc, const T* p, Index sp, const T* q, Index sq, Index n) {
  using Bits = std::conditional_t<std::is_same_v<T, std::int64_t>, double, T>;
  if constexpr (std::is_same_v<T, bool>) {
    for (Index i = 0; i < n; ++i) y[i] = c[i * sc] ? p[i * sp] : q[i * sq];
  } else {
    kernels::kernels<Bits>().elementwise.select(reinterpret_cast<Bits*>(y), c, sc, reinterpret_cast<const Bits*>(p), sp,
                                                reinterpret_cast<const Bits*>(q), sq, n);
  }
}

Tensor where(const Tensor& condition, const Tensor& left, const Tensor& right) {
  const bool whole = !is_floating(left.dtype()) && !is_floating(right.dtype());
  const DType dtype = !whole ? promoted({left, right}) : left.dtype() == right.dtype() ? left.dtype() : DType::int64;
  const Tensor a = cast(left, dtype), b = cast(right, dtype);
  const Tensor chooser = packed_as(condition, DType::boolean);
  const Array &choose = chooser.data(), p = in_runs(a.data()), q = in_runs(b.data());
  const Shape values = broadcast_or_fail("where", a.shape(), b.shape());
  const Shape shape = broadcast_or_fail("where", choose.shape(), values);
  Array y(shape, dtype);
  if (y.numel() > 0)
    visit_any(dtype, [&]<class T>(T) {
      const Loops<4> loops(
          shape, {row_major(shape), broadcast_strides(choose.shape(), shape),
                  broadcast_strides(a.shape(), shape, p.strides()), broadcast_strides(b.shape(), shape, q.strides())});
      const Index n = loops.run(), sc = loops.run_stride(1), sp = loops.run_stride(2), sq = loops.run_stride(3);
      parallel_for(0, loops.rows(), grain_for(2 * n), [&](Index begin, Index end) {
        loops.each_row(begin, end, [&](const std::array<Index, 4>& at) {
          choose_between(y.data<T>() + at[0], choose.data<bool>() + at[1], sc, p.first_as<T>() + at[2], sp,
                         q.first_as<T>() + at[3], sq, n);
        });
      });
    });
  if (!wants_gradient({a, b})) return Tensor(std::move(y));
  return record(std::move(y), {a, b}, [chosen = Saved(choose)](const Tensor& dy, TensorGradients& dx) {
    const Tensor first(chosen.get()), zero = scalar_like(dy, 0);
    dx.add(0, [&] { return sum_to(where(first, dy, zero), dx.shape(0)); });
    dx.add(1, [&] { return sum_to(where(first, zero, dy), dx.shape(1)); });
  });
}

// dy where x lies within the limits, else 0.
static Tensor clip_backward(const Tensor& given, const Tensor& x, double least, double most) {
  const Tensor dy = packed(given);
  Array result(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    parallel_for(0, x.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.clip_backward(result.data<T>() + begin, dy.ptr<T>() + begin, x.ptr<T>() + begin,
                                                      static_cast<T>(least), static_cast<T>(most), end - begin);
    });
  });
  if (!wants_gradient({dy})) return Tensor(std::move(result));
  return record(std::move(result), {dy}, [x = Saved(x.data()), least, most](const Tensor& d, TensorGradients& dx) {
    dx.add(0, clip_backward(d, x.tensor(), least, most));
  });
}

Tensor clip(const Tensor& input, std::optional<double> low, std::optional<double> high) {
  if (low && high && *low > *high) fail_value("clip: low must not be above high; got low = ", *low, ", high = ", *high);
  const Tensor x = floating(input);
  const double infinity = std::numeric_limits<double>::infinity(), least = low.value_or(-infinity),
               most = high.value_or(infinity);
  if (std::isnan(least) || std::isnan(most))  // then all is NaN, as in NumPy, without a gradient
    return where(compare(Compare::less, x, x), x, scalar_like(x, std::numeric_limits<double>::quiet_NaN()));
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&]<class T>(T) {
    const T lowest = in_range<T>("clip", "low", least), highest = in_range<T>("clip", "high", most);
    parallel_for(0, x.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.clip(y.data<T>() + begin, x.ptr<T>() + begin, lowest, highest, end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [x = Saved(x.data()), least, most](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, clip_backward(dy, x.tensor(), least, most));
  });
}

Tensor clip(const Tensor& input, const Tensor& low, const Tensor& high) {
  if (low.defined() && high.defined() && *low.ptr<std::int64_t>() > *high.ptr<std::int64_t>())
    fail_value("clip: low must not be above high; got low = ", *low.ptr<std::int64_t>(),
               ", high = ", *high.ptr<std::int64_t>());
  Tensor x = input;
  if (low.defined()) x = where(compare(Compare::less, x, low), low, x);
  if (high.defined()) x = where(compare(Compare::greater, x, high), high, x);
  return x;
}

}  // namespace qkv::ops
