#include "autograd/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv {
namespace {

// The axis along which x is read number by number, if that is another one than the run's.
std::optional<std::size_t> axis_of_neighbours(const Loops<2>& loops) {
  const Strides& strides = loops.strides(1);
  for (std::size_t axis = 0; axis + 1 < strides.size(); ++axis)
    if (strides[axis] == 1 && loops.run_stride(0) == 1 && loops.run_stride(1) != 1) return axis;
  return {};
}

// y = x read with strides, where x's neighbours lie along another axis than y's: matrix by matrix.
template <class T> void gather_transposed(T* y, const T* x, const Loops<2>& loops, std::size_t neighbours) {
  constexpr Index kRows = 256;
  const IndexList& sizes = loops.sizes();
  const Index rows = loops.run(), columns = sizes[neighbours], ldx = loops.run_stride(1);
  const Index ldy = loops.strides(0)[neighbours], blocks = (rows + kRows - 1) / kRows;
  const Index count = loops.rows() / columns;
  parallel_for(0, count * blocks, grain_for(std::min(rows, kRows) * columns), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      Index rest = i / blocks, at_y = 0, at_x = 0;
      for (std::size_t axis = sizes.size() - 1; axis-- > 0;) {
        if (axis == neighbours) continue;
        at_y += rest % sizes[axis] * loops.strides(0)[axis];
        at_x += rest % sizes[axis] * loops.strides(1)[axis];
        rest /= sizes[axis];
      }
      const Index row = i % blocks * kRows;
      kernels::kernels<T>().layout.transpose(y + at_y + row, ldy, x + at_x + row * ldx, ldx,
                                             std::min(kRows, rows - row), columns);
    }
  });
}

// y = x, both by their strides; memory does not overlap.
void copy(const Array& y, const Array& x) {
  if (y.numel() == 0) return;
  if (y.is_packed() && x.is_packed()) {
    std::memcpy(y.raw(), x.raw(), static_cast<std::size_t>(y.bytes()));
    return;
  }
  const Loops<2> loops(y.shape(), {y.strides(), x.strides()});
  visit_any(x.dtype(), [&]<class T>(T) {
    T* out = y.first_as<T>();
    const T* in = x.first_as<T>();
    if constexpr (!std::is_same_v<T, bool>) {
      using Bits = std::conditional_t<std::is_same_v<T, std::int64_t>, double, T>;  // moved, not computed with
      if (const auto neighbours = axis_of_neighbours(loops))
        return gather_transposed(reinterpret_cast<Bits*>(out), reinterpret_cast<const Bits*>(in), loops, *neighbours);
    }
    const Index n = loops.run(), to = loops.run_stride(0), from = loops.run_stride(1);
    const auto copy_run = [=](T* q, const T* p, Index length) {
      if (to == 1 && from == 1) std::copy_n(p, length, q);
      else if (to == 1 && from == 0) std::fill_n(q, length, *p);
      else
        for (Index i = 0; i < length; ++i) q[i * to] = p[i * from];
    };
    if (loops.rows() == 1)
      return parallel_for(0, n, grain_for(1),
                          [&](Index begin, Index end) { copy_run(out + begin * to, in + begin * from, end - begin); });
    parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
      loops.each_row(begin, end, [&](const std::array<Index, 2>& at) { copy_run(out + at[0], in + at[1], n); });
    });
  });
}

}  // namespace

Array laid_out(const Array& y, const Array& like) {
  if (like.is_packed()) return y;
  const Strides order = like.strides();
  Strides axes, strides(order.size(), 1);
  for (Index axis = 0; axis + 1 < y.rank(); ++axis) axes.push_back(axis);
  const auto reach = [&](Index axis) { return std::abs(order[static_cast<std::size_t>(axis)]); };
  std::stable_sort(axes.begin(), axes.end(), [&](Index a, Index b) { return reach(a) < reach(b); });
  Index step = y.dim(-1);
  for (const Index axis : axes) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= y.dim(axis);
  }
  return Array(y.shape(), strides, y.dtype(), y.buffer(), y.first());
}

bool fills_memory(const Array& x) {
  return x.bytes() == static_cast<Index>(x.buffer()->bytes()) && !overlaps_itself(x);
}

Array without_repeats(const Array& x) {
  if (x.is_packed() || x.numel() == 0) return x;
  Region once{x.shape(), x.strides()};
  for (std::size_t axis = 0; axis < once.shape.size(); ++axis)
    if (once.strides[axis] == 0) once.shape[axis] = 1;
  return x.view(once);
}

Array gathered(const Array& x) {
  Array y(x.shape(), x.dtype());
  copy(y, x);
  return y;
}

void write(const Array& y, const Array& x) {
  if (y.buffer() != x.buffer()) copy(y, x);
  else if (!y.is(x)) copy(y, cloned(x));
  y.buffer()->raise_version();
}

// Serial, as several entries may fall on the same number.
void add_to(const Array& y, const Array& x) {
  if (x.numel() == 0) return;
  const Loops<2> loops(x.shape(), {y.strides(), x.strides()});
  visit_floating(x.dtype(), [&]<class T>(T) {
    T* out = y.first_as<T>();
    const T* in = x.first_as<T>();
    const Index n = loops.run(), to = loops.run_stride(0), from = loops.run_stride(1);
    loops.each_row(0, loops.rows(), [&](const std::array<Index, 2>& at) {
      for (Index i = 0; i < n; ++i) out[at[0] + i * to] += in[at[1] + i * from];
    });
  });
}

bool overlaps_itself(const Array& x) {
  if (x.is_packed()) return false;
  std::vector<std::pair<Index, Index>> axes;  // distance and size of those that count
  const Strides strides = x.strides();
  for (Index axis = 0; axis < x.rank(); ++axis)
    if (x.dim(axis) > 1) axes.emplace_back(std::abs(strides[static_cast<std::size_t>(axis)]), x.dim(axis));
  std::sort(axes.begin(), axes.end());
  Index reach = 0;  // of the axes with smaller steps
  for (const auto& [step, size] : axes) {
    if (step <= reach) return true;
    reach += step * (size - 1);
  }
  return false;
}

}  // namespace qkv
