// Where numbers stand: reshape, transpose, slices, gathering, joining.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"
#include "ops/strides.h"

namespace qkv::ops {
namespace {

// The axis along which x is read number by number, if that is another one than the run's.
std::optional<std::size_t> axis_of_neighbours(const Loops<2>& loops) {
  const Strides& strides = loops.strides(1);
  for (std::size_t axis = 0; axis + 1 < strides.size(); ++axis)
    if (strides[axis] == 1 && loops.run_stride(1) != 1) return axis;
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

// y (contiguous) = x read with strides.
Array gather(const Array& x, const Shape& shape, const Strides& strides, Index offset) {
  Array y(shape, x.dtype());
  if (y.numel() == 0) return y;
  const Loops<2> loops(shape, {row_major(shape), strides});
  visit_any(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* out = y.data<T>();
    const T* in = x.data<T>() + offset;
    if constexpr (!std::is_same_v<T, bool>) {
      using Bits = std::conditional_t<std::is_same_v<T, std::int64_t>, double, T>;  // moved, not computed with
      if (const auto neighbours = axis_of_neighbours(loops))
        return gather_transposed(reinterpret_cast<Bits*>(out), reinterpret_cast<const Bits*>(in), loops, *neighbours);
    }
    const Index n = loops.run(), step = loops.run_stride(1);
    parallel_for(0, loops.rows(), grain_for(n), [&](Index begin, Index end) {
      loops.each_row(begin, end, [&](const std::array<Index, 2>& at) {
        if (step == 1) std::copy_n(in + at[1], n, out + at[0]);
        else
          for (Index i = 0; i < n; ++i) out[at[0] + i] = in[at[1] + i * step];
      });
    });
  });
  return y;
}

// dx, read with strides, += dy. Serial, as several entries may fall on the same number.
void scatter_add(const Array& dx, const Array& dy, const Strides& strides, Index offset) {
  if (dy.numel() == 0) return;
  const Loops<2> loops(dy.shape(), {row_major(dy.shape()), strides});
  visit_floating(dy.dtype(), [&](auto tag) {
    using T = decltype(tag);
    T* out = dx.data<T>() + offset;
    const T* in = dy.data<T>();
    const Index n = loops.run(), step = loops.run_stride(1);
    loops.each_row(0, loops.rows(), [&](const std::array<Index, 2>& at) {
      for (Index i = 0; i < n; ++i) out[at[1] + i * step] += in[at[0] + i];
    });
  });
}

void check_permutation(const Axes& permutation, Index rank) {
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  bool good = static_cast<Index>(permutation.size()) == rank;
  for (const Index axis : permutation) {
    good = good && axis >= 0 && axis < rank && !seen[static_cast<std::size_t>(axis)];
    if (good) seen[static_cast<std::size_t>(axis)] = true;
  }
  if (!good)
    fail_value("transpose: axes must name each of the ", rank, " axes once; got ",
               Shape(permutation.begin(), permutation.end()));
}

}  // namespace

Tensor reshape(const Tensor& x, Shape shape) {
  const Index unknown = std::count(shape.begin(), shape.end(), -1);
  bool good = unknown <= 1 && std::all_of(shape.begin(), shape.end(), [](Index size) { return size >= -1; });
  if (good && unknown == 1) {
    Index& missing = *std::find(shape.begin(), shape.end(), -1);
    missing = 1;
    const Index known = shape.numel();
    good = known > 0 && x.numel() % known == 0;
    missing = good ? x.numel() / known : -1;
  }
  if (!good || shape.numel() != x.numel())
    fail_value("reshape: shape must hold the ", x.numel(), " numbers of a Tensor ", x.shape(), "; got ", shape);
  Array y = x.data().reshaped(std::move(shape));
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, reshape(dy, dx.shape(0))); });
}

// The gradient of strided() for an input of that shape: what was read at a place is added there.
static Tensor added_strided(const Tensor& dy, const Shape& shape, const Strides& strides, Index offset) {
  Array y = Array::zeros(shape, dy.dtype());
  scatter_add(y, dy.data(), strides, offset);
  if (!wants_gradient({dy})) return Tensor(std::move(y));
  return record(std::move(y), {dy}, [strides, offset](const Tensor& d, TensorGradients& dx) {
    dx.add(0, strided(d, dx.shape(0), strides, offset));
  });
}

Tensor strided(const Tensor& x, const Shape& shape, const IndexList& strides, Index offset) {
  Array y = gather(x.data(), shape, strides, offset);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [strides, offset](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, added_strided(dy, dx.shape(0), strides, offset));
  });
}

Tensor transpose(const Tensor& x, const Axes& permutation) {
  check_permutation(permutation, x.rank());
  const Strides own = row_major(x.shape());
  Shape shape;
  Strides strides;
  for (const Index axis : permutation) {
    shape.push_back(x.dim(axis));
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  Array y = gather(x.data(), shape, strides, 0);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  Axes inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<Index>(i);
  return record(std::move(y), {x},
                [inverse](const Tensor& dy, TensorGradients& dx) { dx.add(0, transpose(dy, inverse)); });
}

Tensor swapaxes(const Tensor& x, Index a, Index b) {
  Axes permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(checked_axis("swapaxes", a, x.rank()))],
            permutation[static_cast<std::size_t>(checked_axis("swapaxes", b, x.rank()))]);
  return transpose(x, permutation);
}

// One number everywhere: the gradient of a sum. A kernel, because at -O2 the compiler writes a number at a time.
static Array filled(const Array& x, const Shape& shape) {
  Array y(shape, x.dtype());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T *value = x.data<T>(), one = 1;
    parallel_for(0, y.numel(), grain_for(1), [&](Index begin, Index end) {
      kernels::kernels<T>().elementwise.binary(Binary::multiply, y.data<T>() + begin, value, 0, &one, 0, end - begin);
    });
  });
  return y;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape combined;
  if (!broadcast(x.shape(), shape, combined) || combined != shape)
    fail_value("broadcast_to: shape must be one that ", x.shape(), " broadcasts to; got ", shape);
  Array y = x.numel() == 1 && is_floating(x.dtype()) ? filled(x.data(), shape)
                                                     : gather(x.data(), shape, broadcast_strides(x.shape(), shape), 0);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, sum_to(dy, dx.shape(0))); });
}

Tensor slice(const Tensor& x, Index axis, Index begin, Index end) {
  axis = checked_axis("slice", axis, x.rank());
  Shape shape = x.shape();
  const Strides strides = row_major(shape);
  shape[static_cast<std::size_t>(axis)] = end - begin;
  return strided(x, shape, strides, begin * strides[static_cast<std::size_t>(axis)]);
}

// The gradient of take_flat() for an input of that shape.
static Tensor added_flat(const Tensor& dy, const Array& positions, const Shape& shape) {
  Array y = Array::zeros(shape, dy.dtype());
  visit_floating(dy.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const std::int64_t* at = positions.data<std::int64_t>();
    for (Index i = 0; i < dy.numel(); ++i) y.data<T>()[at[i]] += dy.ptr<T>()[i];
  });
  if (!wants_gradient({dy})) return Tensor(std::move(y));
  const Saved kept(positions);
  return record(std::move(y), {dy},
                [kept](const Tensor& d, TensorGradients& dx) { dx.add(0, take_flat(d, kept.get(), dx.shape(0))); });
}

Tensor take_flat(const Tensor& x, const Array& positions, const Shape& shape) {
  Array y(shape, x.dtype());
  const std::int64_t* from = positions.data<std::int64_t>();
  visit_any(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* in = x.ptr<T>();
    T* out = y.data<T>();
    for (Index i = 0; i < y.numel(); ++i) out[i] = in[from[i]];
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const Saved kept(positions);
  return record(std::move(y), {x},
                [kept](const Tensor& dy, TensorGradients& dx) { dx.add(0, added_flat(dy, kept.get(), dx.shape(0))); });
}

Tensor copy(const Tensor& x) {
  Array y = x.data().clone();
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, dy); });
}

Tensor repeat(const Tensor& x, Index times, Index axis) {
  axis = checked_axis("repeat", axis, x.rank());
  if (times < 0 || times > std::numeric_limits<Index>::max() / std::max<Index>(1, x.dim(axis)))
    fail_value("repeat: repeats must be at least 0 and leave sizes below 2^63; got ", times);
  if (times == 1) return copy(x);
  Shape joined = x.shape(), split = x.shape();
  joined[static_cast<std::size_t>(axis)] *= times;
  split.insert(split.begin() + axis + 1, times);
  Array y(joined, x.dtype());
  const Index inner = x.shape().product(axis + 1, x.rank());
  visit_any(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    parallel_for(0, x.shape().product(0, axis + 1), grain_for(times * inner), [&](Index begin, Index end) {
      const T* from = x.ptr<T>() + begin * inner;
      T* to = y.data<T>() + begin * times * inner;
      for (Index i = begin; i < end; ++i, from += inner)
        if (inner == 1) to = std::fill_n(to, times, *from);
        else
          for (Index k = 0; k < times; ++k) to = std::copy_n(from, inner, to);
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [split, axis](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, sum(reshape(dy, split), Axes{axis + 1}));
  });
}

Tensor concatenate(const Tensors& parts, Index axis) {
  if (parts.empty()) fail_value("concatenate: tensors must hold at least one Tensor; got none");
  const Index rank = parts.front().rank();
  if (rank == 0) fail_value("concatenate: tensors must have at least one axis; got tensors[0] ()");
  axis = checked_axis("concatenate", axis, rank);
  DType dtype = parts.front().dtype();
  Shape shape = parts.front().shape();
  Index total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Shape& other = parts[i].shape();
    bool fits = other.rank() == rank;
    for (Index a = 0; fits && a < rank; ++a) fits = a == axis || other.dim(a) == shape.dim(a);
    if (!fits)
      fail_value("concatenate: tensors must agree on every axis but axis ", axis, "; got tensors[0] ",
                 parts.front().shape(), " and tensors[", i, "] ", other);
    total += other.dim(axis);
    const DType mine = parts[i].dtype();
    if (mine != dtype) {  // float64 wins over float32, floats over integers, integers over booleans
      if (is_floating(mine) || is_floating(dtype))
        dtype = mine == DType::float64 || dtype == DType::float64 ? DType::float64 : DType::float32;
      else dtype = DType::int64;
    }
  }
  shape[static_cast<std::size_t>(axis)] = total;
  Tensors inputs;
  for (const Tensor& part : parts) inputs.push_back(cast(part, dtype));
  Array y(shape, dtype);
  const Index outer = shape.product(0, axis), inner = shape.product(axis + 1, rank) * item_size(dtype);
  char* out = static_cast<char*>(y.raw());
  Index done = 0;
  for (const Tensor& part : inputs) {
    const Index bytes = part.dim(axis) * inner;
    if (bytes == item_size(dtype)) {  // single numbers, in steps
      visit_any(dtype, [&](auto tag) {
        using T = decltype(tag);
        T* to = y.data<T>() + done;
        for (Index i = 0; i < outer; ++i) to[i * total] = part.ptr<T>()[i];
      });
    } else {
      for (Index i = 0; i < outer; ++i)
        std::memcpy(out + (i * total + done) * inner, static_cast<const char*>(part.data().raw()) + i * bytes,
                    static_cast<std::size_t>(bytes));
    }
    done += part.dim(axis);
  }
  if (!wants_gradient(inputs)) return Tensor(std::move(y));
  return record(std::move(y), inputs, [axis](const Tensor& dy, TensorGradients& dx) {
    for (Index i = 0, begin = 0; i < dx.count(); begin += dx.shape(i++).dim(axis))
      dx.add(i, [&] { return slice(dy, axis, begin, begin + dx.shape(i).dim(axis)); });
  });
}

Tensor stack(const Tensors& parts, Index axis) {
  if (parts.empty()) fail_value("stack: tensors must hold at least one Tensor; got none");
  axis = checked_axis("stack", axis, parts.front().rank() + 1);
  Tensors expanded;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shape() != parts.front().shape())
      fail_value("stack: tensors must have equal shapes; got tensors[0] ", parts.front().shape(), " and tensors[", i,
                 "] ", parts[i].shape());
    Shape shape = parts[i].shape();
    shape.insert(shape.begin() + axis, 1);
    expanded.push_back(reshape(parts[i], shape));
  }
  return concatenate(expanded, axis);
}

}  // namespace qkv::ops
