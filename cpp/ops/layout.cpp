// The places of numbers: reshape, transpose, slices, gathering, joining.
#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>

#include "autograd/views.h"
#include "core/parallel.h"
#include "ops/checked_integers.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

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
  return reshaped(x, shape);
}

Tensor transpose(const Tensor& x, const Axes& permutation) {
  check_permutation(permutation, x.rank());
  const Strides own = x.data().strides();
  Region region;
  Axes inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto axis = static_cast<std::size_t>(permutation[i]);
    region.shape.push_back(x.shape()[axis]);
    region.strides.push_back(own[axis]);
    inverse[axis] = static_cast<Index>(i);
  }
  return view_by(x, x.data().view(region),
                 [inverse](const Tensor& dy, TensorGradients& dx) { dx.add(0, transpose(dy, inverse)); });
}

Tensor swapaxes(const Tensor& x, Index a, Index b) {
  Axes permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(checked_axis("swapaxes", a, x.rank()))],
            permutation[static_cast<std::size_t>(checked_axis("swapaxes", b, x.rank()))]);
  return transpose(x, permutation);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return reshaped(x, shape);
  Shape combined;
  if (!broadcast(x.shape(), shape, combined) || combined != shape)
    fail_value("broadcast_to: shape must be one that ", x.shape(), " broadcasts to; got ", shape);
  const Array& numbers = x.data();
  return view_by(x, numbers.view({shape, broadcast_strides(x.shape(), shape, numbers.strides())}),
                 [](const Tensor& dy, TensorGradients& dx) { dx.add(0, sum_to(dy, dx.shape(0))); });
}

Tensor slice(const Tensor& x, Index axis, Index begin, Index end) {
  axis = checked_axis("slice", axis, x.rank());
  return view(x, [&](const Strides& strides) {
    Region region{x.shape(), strides, begin * strides[static_cast<std::size_t>(axis)]};
    region.shape[static_cast<std::size_t>(axis)] = end - begin;
    return region;
  });
}

Tensor diagonal(const Tensor& x, Index offset, Index axis1, Index axis2) {
  const auto a = static_cast<std::size_t>(checked_axis("diagonal", axis1, x.rank())),
             b = static_cast<std::size_t>(checked_axis("diagonal", axis2, x.rank()));
  if (a == b) fail_value("diagonal: axis1 and axis2 must be two axes; got ", axis1, " and ", axis2);
  const Index down = std::max<Index>(-offset, 0), right = std::max<Index>(offset, 0);
  const Index length = std::max<Index>(std::min(x.shape()[a] - down, x.shape()[b] - right), 0);
  return view(x, [&](const Strides& strides) {
    Region region;
    for (std::size_t axis = 0; axis < strides.size(); ++axis) {
      if (axis == a || axis == b) continue;
      region.shape.push_back(x.shape()[axis]);
      region.strides.push_back(strides[axis]);
    }
    region.shape.push_back(length);
    region.strides.push_back(strides[a] + strides[b]);
    if (length > 0) region.offset = down * strides[a] + right * strides[b];
    return region;
  });
}

Tensor unfold(const Tensor& x, Index axis, Index size, Index step) {
  const auto at = static_cast<std::size_t>(checked_axis("unfold", axis, x.rank()));
  if (step < 1 || size < 0 || size > x.shape()[at])
    fail_value("unfold: step must be at least 1, and size from 0 to that of the axis, ", x.shape()[at], "; got step ",
               step, ", size ", size);
  return view(x, [&](const Strides& strides) {
    Region region{x.shape(), strides};
    region.shape[at] = (x.shape()[at] - size) / step + 1;
    region.strides[at] *= step;
    region.shape.push_back(size);
    region.strides.push_back(strides[at]);
    return region;
  });
}

// The gradient of take_flat() for an input of that shape.
static Tensor added_flat(const Tensor& dy, const Array& positions, const Shape& shape) {
  Array y = Array::zeros(shape, dy.dtype());
  visit_floating(dy.dtype(), [&]<class T>(T) {
    const std::int64_t* at = positions.data<std::int64_t>();
    const Array numbers = packed(dy.data());
    for (Index i = 0; i < dy.numel(); ++i) y.data<T>()[at[i]] += numbers.data<T>()[i];
  });
  if (!wants_gradient({dy})) return Tensor(std::move(y));
  const Saved kept(positions);
  return record(std::move(y), {dy},
                [kept](const Tensor& d, TensorGradients& dx) { dx.add(0, take_flat(d, kept.get(), dx.shape(0))); });
}

Tensor take_flat(const Tensor& given, const Array& positions, const Shape& shape, Index first) {
  const Tensor x = packed(given);
  Array y(shape, x.dtype());
  const std::int64_t* from = positions.data<std::int64_t>();
  visit_any(x.dtype(), [&]<class T>(T) {
    const T* in = x.ptr<T>() + first;
    T* out = y.data<T>();
    parallel_for(0, y.numel(), grain_for(4), [=](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[i] = in[from[i]];
    });
  });
  if (!wants_gradient({x})) return Tensor(std::move(y));
  const Saved kept(positions);
  return record(std::move(y), {x},
                [kept](const Tensor& dy, TensorGradients& dx) { dx.add(0, added_flat(dy, kept.get(), dx.shape(0))); });
}

Tensor copy(const Tensor& x) {
  Array y = cloned(x.data());
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [](const Tensor& dy, TensorGradients& dx) { dx.add(0, dy); });
}

Tensor repeat(const Tensor& given, Index times, Index axis) {
  const Tensor x = packed(given);
  axis = checked_axis("repeat", axis, x.rank());
  if (times < 0 || times > std::numeric_limits<Index>::max() / std::max<Index>(1, x.dim(axis)))
    fail_value("repeat: repeats must be at least 0 and leave sizes below 2^63; got ", times);
  if (times == 1) return copy(x);
  Shape joined = x.shape(), split = x.shape();
  joined[static_cast<std::size_t>(axis)] *= times;
  split.insert(split.begin() + axis + 1, times);
  Array y(joined, x.dtype());
  const Index inner = x.shape().product(axis + 1, x.rank());
  visit_any(x.dtype(), [&]<class T>(T) {
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

Tensor repeat(const Tensor& x, const Array& times, Index axis) {
  axis = checked_axis("repeat", axis, x.rank());
  if (times.numel() == 1) return repeat(x, *times.first_as<std::int64_t>(), axis);
  const Index n = x.dim(axis);
  if (times.shape() != Shape{n})
    fail_value("repeat: repeats must be one number, or ", n, " because axis ", axis,
               " has so many places; got repeats ", times.shape());
  constexpr Index kMost = std::numeric_limits<Index>::max();
  const auto fail = [](std::int64_t given, Index) {
    fail_value("repeat: repeats must be at least 0 and leave sizes below 2^63; got ", given);
  };
  const Array own = checked_integers(times, 0, kMost, fail);
  const std::int64_t* each = own.data<std::int64_t>();
  Index total = 0;
  for (Index i = 0; i < n; total += each[i++])
    if (each[i] > kMost - total) fail(each[i], i);
  const Array from({total}, DType::int64);
  std::int64_t* to = from.data<std::int64_t>();
  for (Index i = 0; i < n; ++i) to = std::fill_n(to, each[i], i);
  return gather({"repeat", "index"}, x, entries_along(from, x.shape(), axis), axis);
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
  for (const Tensor& part : parts) inputs.push_back(packed(cast(part, dtype)));
  Array y(shape, dtype);
  const Index outer = shape.product(0, axis), inner = shape.product(axis + 1, rank) * item_size(dtype);
  char* out = static_cast<char*>(y.raw());
  Index done = 0;
  for (const Tensor& part : inputs) {
    const Index bytes = part.dim(axis) * inner;
    if (bytes == item_size(dtype)) {  // single numbers, in steps
      visit_any(dtype, [&]<class T>(T) {
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
