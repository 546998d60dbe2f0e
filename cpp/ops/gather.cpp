// Numbers picked by index along an axis, and numbers put or added where an index says.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "core/parallel.h"
#include "ops/checked_integers.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using I = std::int64_t;

// An index into an axis of x: which entry of the axis each of its places means. x's other axes may be longer.
class Places {
 public:
  Places(const Lookup& lookup, const Array& index, const Array& x, Index axis)
      : lookup_(lookup), index_(index), axis_(axis), size_(x.dim(axis)), wrap_(lookup.from_end ? size_ : 0) {
    strides_ = x.strides();
    step_ = std::exchange(strides_[static_cast<std::size_t>(axis)], 0);
    if (size_ == 0 && index.numel() > 0) fail();
  }
  // Strides of x for a walk in which its axis is fixed, and that of the axis.
  const Strides& strides() const { return strides_; }
  Index size() const { return size_; }
  // A line that will be read all over.
  template <class T> void prefetch(const T* line) const {
    constexpr Index kCacheLine = 64 / sizeof(T);
    if (step_ == 1 && size_ * static_cast<Index>(sizeof(T)) <= 32768)
      for (Index i = 0; i < size_; i += kCacheLine) __builtin_prefetch(line + i);
  }
  // Calls pick(i, where x's numbers for index[i * step] begin) for n numbers of the index. One out of range counts as
  // the first; check() reports it.
  template <class Pick> void each(const I* index, Index step, Index n, Pick pick) {
    const auto size = static_cast<std::uint64_t>(size_);
    const I wrap = wrap_;
    const Index stride = step_;
    bool wrong = false;
    I last = 0;  // of those that are wrong
    const auto place = [&](I given) {
      const auto at = static_cast<std::uint64_t>(given < 0 ? given + wrap : given);
      if (at < size) [[likely]]
        return static_cast<Index>(at);
      wrong = true;
      last = given;
      return Index{0};
    };
    if (step == 1 && stride == 1)
      for (Index i = 0; i < n; ++i) pick(i, place(index[i]));
    else
      for (Index i = 0; i < n; ++i) pick(i, place(index[i * step]) * stride);
    if (!wrong) return;
    bad_.store(last, std::memory_order_relaxed);
    wrong_.store(true, std::memory_order_release);
  }
  void check() const {
    if (wrong_.load(std::memory_order_acquire)) fail();
  }

 private:
  [[noreturn]] void fail() const {
    const Array numbers = packed(index_);
    const I *first = numbers.data<I>(), *end = first + numbers.numel();
    const I* found = std::find_if(first, end, [&](I i) { return i >= size_ || i < -wrap_; });
    const I bad = found != end ? *found : bad_.load(std::memory_order_relaxed);  // another thread has changed it since
    if (lookup_.from_end)
      fail_value(lookup_.operation, ": ", lookup_.argument, " must be from ", -wrap_, " to ", size_ - 1,
                 " because so many numbers stand on axis ", axis_, "; got ", bad);
    throw std::out_of_range(
        text(lookup_.operation, ": ", lookup_.argument, " must be from 0 to ", size_ - 1, "; got ", bad));
  }

  const Lookup lookup_;
  const Array index_;
  const Index axis_, size_, wrap_;
  Strides strides_;
  Index step_ = 0;
  std::atomic<bool> wrong_{false};
  std::atomic<I> bad_{0};
};

void check_index(const Lookup& lookup, const Array& index, const Shape& x, Index axis) {
  if (index.rank() != x.rank())
    fail_runtime(lookup.operation, ": ", lookup.argument, " must have as many axes as the Tensor ", x, "; got ",
                 index.shape());
  for (Index i = 0; i < x.rank(); ++i)
    if (i != axis && index.dim(i) > x.dim(i))
      fail_runtime(lookup.operation, ": ", lookup.argument, " must not be larger than the Tensor ", x,
                   " but along axis ", axis, "; got ", index.shape());
}

// Walks three arrays of this shape together: body(where each one's run starts, its steps, n). A line along the axis
// stays on one thread; lines that lie across rows are taken in blocks, so that what an index reaches stays in the
// cache.
template <class Body> void walk(const Shape& shape, Index axis, const std::array<Strides, 3>& strides, Body body) {
  const std::size_t last = shape.size() - 1;
  const Index numbers = shape.product(0, shape.rank());
  if (numbers == 0) return;
  const auto rows = [&](const Loops<3>& loops, const std::array<Index, 3>& start, Index begin, Index end) {
    const std::array<Index, 3> step{loops.run_stride(0), loops.run_stride(1), loops.run_stride(2)};
    loops.each_row(begin, end, [&](const std::array<Index, 3>& at) {
      body(std::array<Index, 3>{at[0] + start[0], at[1] + start[1], at[2] + start[2]}, step, loops.run());
    });
  };
  if (static_cast<std::size_t>(axis) == last) {
    const Loops<3> loops(shape, strides);
    return parallel_for(0, loops.rows(), grain_for(2 * loops.run()),
                        [&](Index begin, Index end) { rows(loops, {}, begin, end); });
  }
  const bool one_entry = strides[1][last] == 0;  // for all of a row
  const Index length = shape[last], width = one_entry || numbers < 32768 ? length : std::min<Index>(length, 64);
  parallel_for(0, (length + width - 1) / width, grain_for(2 * width * (numbers / length)), [&](Index begin, Index end) {
    for (Index block = begin; block < end; ++block) {
      Shape part = shape;
      part[last] = std::min(width, length - block * width);
      std::array<Index, 3> start{};
      for (std::size_t n = 0; n < 3; ++n) start[n] = block * width * strides[n][last];
      const Loops<3> loops(part, strides);
      rows(loops, start, 0, loops.rows());
    }
  });
}

// x[index] along the axis.
Array gathered_at(const Lookup& lookup, const Array& x, const Array& index, Index axis) {
  Array y(index.shape(), x.dtype());
  Places places(lookup, index, x, axis);
  const I* at = index.first_as<I>();
  visit_any(x.dtype(), [&]<class T>(T) {
    walk(index.shape(), axis, {row_major(index.shape()), index.strides(), places.strides()},
         [&](const std::array<Index, 3>& begin, const std::array<Index, 3>& step, Index n) {
           T* to = y.data<T>() + begin[0];
           const T* from = x.first_as<T>() + begin[2];
           const Index own = step[0], its = step[2];
           if (step[1] != 0 && own == 1 && its == 0) {  // along the last axis
             if (n * 16 > places.size()) places.prefetch(from);
             return places.each(at + begin[1], step[1], n, [=](Index i, Index place) { to[i] = from[place]; });
           }
           if (step[1] != 0)
             return places.each(at + begin[1], step[1], n,
                                [=](Index i, Index place) { to[i * own] = from[i * its + place]; });
           places.each(at + begin[1], 0, 1, [=](Index, Index place) {  // one entry for the whole run
             if (own == 1 && its == 1) std::copy_n(from + place, n, to);
             else
               for (Index i = 0; i < n; ++i) to[i * own] = from[i * its + place];
           });
         });
  });
  places.check();
  return y;
}

template <class T> T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) return a || b;
  else if constexpr (std::is_same_v<T, I>)
    return static_cast<I>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else return a + b;
}

// y[index] = or += values, in the order of the index along the axis.
void put_at(const Lookup& lookup, const Array& y, const Array& index, const Array& values, Index axis, bool add) {
  Places places(lookup, index, y, axis);
  const I* at = index.first_as<I>();
  visit_any(y.dtype(), [&]<class T>(T) {
    walk(index.shape(), axis,
         {places.strides(), index.strides(), broadcast_strides(values.shape(), index.shape(), values.strides())},
         [&](const std::array<Index, 3>& begin, const std::array<Index, 3>& step, Index n) {
           T* to = y.data<T>() + begin[0];
           const T* from = values.first_as<T>() + begin[2];
           const Index own = step[0], its = step[2];
           const auto put_all = [&](auto change) {
             if (step[1] != 0 && own == 0 && its == 1)  // along the last axis
               return places.each(at + begin[1], step[1], n, [=](Index i, Index place) { change(to[place], from[i]); });
             if (step[1] != 0)
               return places.each(at + begin[1], step[1], n,
                                  [=](Index i, Index place) { change(to[i * own + place], from[i * its]); });
             places.each(at + begin[1], 0, 1, [=](Index, Index place) {  // one entry for the whole run
               if (own == 1 && its == 1)
                 for (Index i = 0; i < n; ++i) change(to[place + i], from[i]);
               else
                 for (Index i = 0; i < n; ++i) change(to[i * own + place], from[i * its]);
             });
           };
           if (add) put_all([](T& target, T value) { target = sum_of(target, value); });
           else put_all([](T& target, T value) { target = value; });
         });
  });
  places.check();
}

// Which values stay where several are put at one place: the last ones.
Tensor stays(const Lookup& lookup, const Shape& shape, const Array& index, Index axis) {
  Array order(index.shape(), DType::int64);
  std::iota(order.data<I>(), order.data<I>() + order.numel(), I{0});
  const Array kept = Array::zeros(shape, DType::int64);
  put_at(lookup, kept, index, order, axis, false);
  return compare(Compare::equal, Tensor(gathered_at(lookup, kept, index, axis)), Tensor(order));
}

}  // namespace

Tensor gather(const Lookup& lookup, const Tensor& x, const Array& index, Index axis) {
  axis = checked_axis(lookup.operation, axis, x.rank());
  check_index(lookup, index, x.shape(), axis);
  Array y = gathered_at(lookup, x.data(), index, axis);
  if (!wants_gradient({x})) return Tensor(std::move(y));
  return record(std::move(y), {x}, [lookup, index = Saved(index), axis](const Tensor& dy, TensorGradients& dx) {
    dx.add(0,
           [&] { return scatter(lookup, Tensor(Array::zeros(dx.shape(0), dy.dtype())), index.get(), dy, axis, true); });
  });
}

Tensor take_along_axis(const Tensor& x, const Array& places, Index axis) {
  axis = checked_axis("take_along_axis", axis, x.rank());
  Shape lines = places.shape();
  if (places.rank() == x.rank()) lines[static_cast<std::size_t>(axis)] = x.dim(axis);
  if (lines != x.shape())
    fail_value("take_along_axis: indices must have the shape of x ", x.shape(), " on every axis but axis ", axis,
               "; got indices ", places.shape());
  return gather({"take_along_axis", "indices", true}, x, places, axis);
}

Tensor scatter(const Lookup& lookup, const Tensor& x, const Array& index, const Tensor& values, Index axis, bool add) {
  axis = checked_axis(lookup.operation, axis, x.rank());
  check_index(lookup, index, x.shape(), axis);
  Shape whole;
  if (!broadcast(values.shape(), index.shape(), whole) || whole != index.shape())
    fail_runtime(lookup.operation, ": ", lookup.values, " must have the shape ", index.shape(),
                 " of what they replace, or broadcast to it; got ", values.shape());
  const Tensor numbers = cast(values, x.dtype());
  Array y = cloned(x.data());
  put_at(lookup, y, index, numbers.data(), axis, add);
  if (!wants_gradient({x, numbers})) return Tensor(std::move(y));
  return record(std::move(y), {x, numbers},
                [lookup, index = Saved(index), axis, add](const Tensor& dy, TensorGradients& dx) {
                  const Array& at = index.get();
                  const Tensor zero = scalar_like(dy, 0);
                  dx.add(0, [&] { return add ? dy : scatter(lookup, dy, at, zero, axis, false); });
                  dx.add(1, [&] {
                    const Tensor picked = gather(lookup, dy, at, axis);
                    return sum_to(add ? picked : where(stays(lookup, dy.shape(), at, axis), picked, zero), dx.shape(1));
                  });
                });
}

Array entries_along(const Array& numbers, const Shape& shape, Index axis) {
  Region region{shape, Strides(shape.size(), 0), 0};
  region.shape[static_cast<std::size_t>(axis)] = numbers.numel();
  region.strides[static_cast<std::size_t>(axis)] = 1;
  return packed(numbers).view(region);
}

Array entries(const Array& given, Index axis, const Array& indices) {
  const Array x = packed(given);
  const Index outer = x.shape().product(0, axis), inner = x.shape().product(axis + 1, x.rank()) * item_size(x.dtype());
  const Index size = x.dim(axis), count = indices.numel();
  const Array own = checked_integers(indices, 0, size - 1, [&](std::int64_t index, Index) {
    fail_value("reorder: indices must be from 0 to ", size - 1, " because axis ", axis, " of ", x.shape(),
               " has so many entries; got ", index);
  });
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = count;
  Array y(shape, x.dtype());
  for (Index o = 0; o < outer; ++o)
    for (Index i = 0; i < count; ++i)
      std::memcpy(static_cast<char*>(y.raw()) + (o * count + i) * inner,
                  static_cast<const char*>(x.raw()) + (o * size + own.data<std::int64_t>()[i]) * inner,
                  static_cast<std::size_t>(inner));
  return y;
}

}  // namespace qkv::ops
