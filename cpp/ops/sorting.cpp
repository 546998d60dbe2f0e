// Numbers in order along an axis. A row is sorted by keys, whole numbers in the same order, each with its place: so
// equal numbers keep their order, and every two keys differ.
#include <algorithm>
#include <bit>
#include <limits>

#include "ops/reductions.h"

namespace qkv::ops {
namespace {

// A whole number for each x, in the order of the numbers: -0 equals 0, NaN is larger than all.
std::uint32_t key_of(float x) {
  if (x != x) return std::numeric_limits<std::uint32_t>::max();
  const auto bits = std::bit_cast<std::uint32_t>(x + 0.0F);  // no -0
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
std::uint64_t key_of(double x) {
  if (x != x) return std::numeric_limits<std::uint64_t>::max();
  const auto bits = std::bit_cast<std::uint64_t>(x + 0.0);
  return bits >> 63 != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
}
std::uint64_t key_of(std::int64_t x) { return static_cast<std::uint64_t>(x) ^ (std::uint64_t{1} << 63); }
std::uint32_t key_of(bool x) { return x ? 1 : 0; }

// A key and its place in one number where both fit.
struct Narrow {
  std::uint64_t whole;
  static constexpr int kDigits = 4;
  Narrow() = default;
  Narrow(std::uint32_t key, Index place) : whole(std::uint64_t{key} << 32 | static_cast<std::uint32_t>(place)) {}
  unsigned digit(int i) const { return static_cast<unsigned>(whole >> (32 + 8 * i)) & 255U; }
  Index place() const { return static_cast<Index>(whole & 0xFFFFFFFFU); }
  bool operator<(const Narrow& other) const { return whole < other.whole; }
};
struct Wide {
  std::uint64_t key;
  Index at;
  static constexpr int kDigits = 8;
  Wide() = default;
  Wide(std::uint64_t k, Index place) : key(k), at(place) {}
  unsigned digit(int i) const { return static_cast<unsigned>(key >> (8 * i)) & 255U; }
  Index place() const { return at; }
  bool operator<(const Wide& other) const { return key != other.key ? key < other.key : at < other.at; }
};

// Sorts n items, whose places ascend, by their keys, one digit of 8 bits after the other; `other` is scratch of the
// same size. Returns where they are then.
template <class Item> Item* by_digits(Item* items, Item* other, Index n) {
  Index counts[Item::kDigits][256] = {};
  for (Index i = 0; i < n; ++i)
    for (int d = 0; d < Item::kDigits; ++d) ++counts[d][items[i].digit(d)];
  for (int d = 0; d < Item::kDigits; ++d) {
    if (counts[d][items[0].digit(d)] == n) continue;  // all the same
    Index next = 0;
    for (Index& count : counts[d]) next += std::exchange(count, next);
    for (Index i = 0; i < n; ++i) other[counts[d][items[i].digit(d)]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

// The items of a row, ascending, or descending where all bits of the keys are turned.
template <class T, class Item> void fill(Item* items, const T* x, Index n, bool descending) {
  using Key = decltype(key_of(T{}));
  const Key turned = descending ? std::numeric_limits<Key>::max() : Key{0};
  for (Index i = 0; i < n; ++i) items[i] = Item(key_of(x[i]) ^ turned, i);
}

// body(row's numbers, items of scratch (2 n), row) for all rows of x, which have n numbers each.
template <class Body> void each_row(const Array& rows, Index count, Index n, Body body) {
  visit_any(rows.dtype(), [&]<class T>(T) {
    const auto all = [&](auto item) {
      using Item = decltype(item);
      parallel_for(0, n == 0 ? 0 : count, grain_for(16 * n), [&](Index begin, Index end) {
        const Scratch scratch(2 * static_cast<std::size_t>(n) * sizeof(Item));
        for (Index row = begin; row < end; ++row) {
          throw_if_interrupted();
          body(rows.data<T>() + row * n, scratch.as<Item>(), row);
        }
      });
    };
    if constexpr (sizeof(key_of(T{})) == 4) {
      if (n <= Index{std::numeric_limits<std::uint32_t>::max()}) return all(Narrow{});
    }
    all(Wide{});
  });
}

// The k first items of a row in order, of many: one comparison tells that most others are none.
template <class T, class Item> void first_of_many(Item* items, Index k, const T* x, Index n, bool descending) {
  using Key = decltype(key_of(T{}));
  const Key turned = descending ? std::numeric_limits<Key>::max() : Key{0};
  fill(items, x, k, descending);
  std::make_heap(items, items + k);
  for (Index i = k; i < n; ++i) {
    const Item item(key_of(x[i]) ^ turned, i);
    if (!(item < *items)) continue;
    std::pop_heap(items, items + k);
    items[k - 1] = item;
    std::push_heap(items, items + k);
  }
  std::sort_heap(items, items + k);
}

constexpr Index kFew = 96;  // so many are sorted faster by comparing

}  // namespace

Sorted sort(const Tensor& x, Index axis, bool descending) {
  axis = checked_axis("sort", axis, x.rank());
  const ReducedAxes p = reduced_axes("sort", x.shape(), Axes{axis}, true);
  const Array rows = rows_of(x.data(), p);
  const Index n = p.length;
  Array places({p.rows, n}, DType::int64), values({p.rows, n}, x.dtype());
  each_row(rows, p.rows, n, [&]<class T, class Item>(const T* numbers, Item* items, Index row) {
    fill(items, numbers, n, descending);
    Item* order = items;
    if (n <= kFew) std::sort(items, items + n);
    else order = by_digits(items, items + n, n);
    std::int64_t* at = places.data<std::int64_t>() + row * n;
    T* to = values.data<T>() + row * n;
    for (Index i = 0; i < n; ++i) to[i] = numbers[at[i] = order[i].place()];
  });
  places = from_rows(places, p, x.shape());
  if (wants_gradient({x})) return {take_along_axis(x, places, axis), places};
  return {Tensor(from_rows(values, p, x.shape())), places};
}

Array topk(const Tensor& x, Index k, Index axis, bool largest) {
  axis = checked_axis("topk", axis, x.rank());
  const Index n = x.dim(axis);
  if (k < 0 || k > n)
    fail_value("topk: k must be from 0 to ", n, " because so many numbers stand on axis ", axis, "; got k = ", k);
  if (k == 1 && largest) return argmax(x, axis, true).data();
  const ReducedAxes p = reduced_axes("topk", x.shape(), Axes{axis}, true);
  const Array rows = rows_of(x.data(), p);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = k;
  Array places({p.rows, k}, DType::int64);
  each_row(rows, p.rows, n, [&]<class T, class Item>(const T* numbers, Item* items, Index row) {
    if (k > n / 8) {
      fill(items, numbers, n, largest);
      if (k < n) std::nth_element(items, items + k, items + n);
      std::sort(items, items + k);
    } else if (k > 0) {
      first_of_many(items, k, numbers, n, largest);
    }
    for (Index i = 0; i < k; ++i) places.data<std::int64_t>()[row * k + i] = items[i].place();
  });
  return from_rows(places, p, shape);
}

std::pair<Tensor, Tensor> extreme(const Tensor& x, Index axis, bool keepdims, bool largest) {
  const Tensor places = (largest ? argmax : argmin)(x, axis, true);
  const Tensor values = take_along_axis(x, places.data(), axis);
  if (keepdims) return {values, places};
  Shape shape = x.shape();
  shape.erase(shape.begin() + checked_axis("extreme", axis, x.rank()));
  return {reshape(values, shape), Tensor(places.data().reshaped(shape))};
}

}  // namespace qkv::ops
