// One number or another: where, clip.
#include <limits>
#include <type_traits>

#include "core/in_range.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/strides.h"

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
  const Array choose = condition.data().cast(DType::boolean);
  const Shape values = broadcast_or_fail("where", a.shape(), b.shape());
  const Shape shape = broadcast_or_fail("where", choose.shape(), values);
  Array y(shape, dtype);
  const auto select = [](const Array& out, const Array& c, const Array& p, const Array& q) {
    if (out.numel() == 0) return;
    visit_any(out.dtype(), [&](auto tag) {
      using T = decltype(tag);
      const Loops<4> loops(out.shape(),
                           {row_major(out.shape()), broadcast_strides(c.shape(), out.shape()),
                            broadcast_strides(p.shape(), out.shape()), broadcast_strides(q.shape(), out.shape())});
      const Index n = loops.run(), sc = loops.run_stride(1), sp = loops.run_stride(2), sq = loops.run_stride(3);
      parallel_for(0, loops.rows(), grain_for(2 * n), [&](Index begin, Index end) {
        loops.each_row(begin, end, [&](const std::array<Index, 4>& at) {
          choose_between(out.data<T>() + at[0], c.data<bool>() + at[1], sc, p.data<T>() + at[2], sp,
                         q.data<T>() + at[3], sq, n);
        });
      });
    });
  };
  select(y, choose, a.data(), b.data());
  if (!wants_gradient({a, b})) return Tensor(std::move(y));
  const Saved chosen(choose);
  return record(
      std::move(y), {a, b},
      [select, choose = chosen, sa = a.shape(), sb = b.shape()](const Array& dy, Gradients& dx) {
        const Array zero = Array::full({}, dy.dtype(), 0.0);
        Array part(dy.shape(), dy.dtype());
        if (dx.wants(0)) {
          select(part, choose.get(), dy, zero);
          dx.add(0, sum_to(part, sa));
        }
        if (dx.wants(1)) {
          part = Array(dy.shape(), dy.dtype());
          select(part, choose.get(), zero, dy);
          dx.add(1, sum_to(part, sb));
        }
      },
      [chosen](const Tensor& dy, TensorGradients& dx) {
        const Tensor chooser(chosen.get()), zero = scalar_like(dy, 0);
        if (dx.wants(0)) dx.add(0, sum_to(where(chooser, dy, zero), dx.shape(0)));
        if (dx.wants(1)) dx.add(1, sum_to(where(chooser, zero, dy), dx.shape(1)));
      });
}

Tensor clip(const Tensor& input, std::optional<double> low, std::optional<double> high) {
  if (low && high && *low > *high) fail_value("clip: low must not be above high; got low = ", *low, ", high = ", *high);
  const Tensor x = floating(input);
  const double infinity = std::numeric_limits<double>::infinity(), least = low.value_or(-infinity),
               most = high.value_or(infinity);
  Array y(x.shape(), x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T lowest = in_range<T>("clip", "low", least), highest = in_range<T>("clip", "high", most);
    parallel_for(0, x.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.clip(y.data<T>() + begin, x.ptr<T>() + begin, lowest, highest, end - begin);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(
      std::move(y), {x},
      [x = Saved(x), least, most](const Array& dy, Gradients& dx) {
        visit_floating(dy.dtype(), [&](auto tag) {
          using T = decltype(tag);
          const Array slope = dx.fresh(0);
          const T* numbers = x.data<T>();
          parallel_for(0, dy.numel(), grain_for(1), [&](Index begin, Index end) {
            kernels::kernels<T>().elementwise.clip_backward(slope.data<T>() + begin, dy.data<T>() + begin,
                                                            numbers + begin, static_cast<T>(least),
                                                            static_cast<T>(most), end - begin);
          });
          dx.add(0, slope);
        });
      },
      [least, most](const Tensor& dy, TensorGradients& dx) {
        const Tensor& numbers = dx.input(0);
        const Tensor zero = scalar_like(dy, 0), below = compare(Compare::less, numbers, scalar_like(numbers, least));
        const Tensor above = compare(Compare::greater, numbers, scalar_like(numbers, most));
        dx.add(0, where(below, zero, where(above, zero, dy)));
      });
}

}  // namespace qkv::ops
