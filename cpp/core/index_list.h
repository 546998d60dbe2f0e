// A short list of sizes, strides or axes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/index.h"

namespace qkv {

// A std::vector<Index> that takes no memory of its own up to kInPlace numbers: every operation makes and copies some
// shapes, and each would be an allocation.
class IndexList {
 public:
  using value_type = Index;
  using iterator = Index*;
  using const_iterator = const Index*;

  IndexList() = default;
  explicit IndexList(std::size_t n, Index value = 0) { resize(n, value); }
  IndexList(std::initializer_list<Index> numbers) : IndexList(numbers.begin(), numbers.end()) {}
  template <class Iterator>
    requires(!std::is_integral_v<Iterator>)
  IndexList(Iterator first, Iterator last) {
    grow(static_cast<std::size_t>(last - first));
    size_ = static_cast<std::size_t>(last - first);
    std::copy(first, last, begin());
  }
  explicit IndexList(const std::vector<Index>& numbers) : IndexList(numbers.begin(), numbers.end()) {}
  IndexList(const IndexList& other) : size_(other.size_) {
    if (other.more_) copy_more(other);
    else std::memcpy(in_place_, other.in_place_, sizeof in_place_);  // all, as a fixed number is a few instructions
  }
  IndexList(IndexList&& other) noexcept { take(other); }
  IndexList& operator=(const IndexList& other) {
    if (this != &other) *this = IndexList(other);
    return *this;
  }
  IndexList& operator=(IndexList&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~IndexList() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Index* data() { return more_ ? more_.get() : in_place_; }
  const Index* data() const { return more_ ? more_.get() : in_place_; }
  Index* begin() { return data(); }
  Index* end() { return data() + size_; }
  const Index* begin() const { return data(); }
  const Index* end() const { return data() + size_; }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  Index& operator[](std::size_t i) { return data()[i]; }
  const Index& operator[](std::size_t i) const { return data()[i]; }
  Index& front() { return data()[0]; }
  const Index& front() const { return data()[0]; }
  Index& back() { return data()[size_ - 1]; }
  const Index& back() const { return data()[size_ - 1]; }

  void push_back(Index value) {
    grow(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  void resize(std::size_t n, Index value = 0) {
    grow(n);
    if (n > size_) std::fill(end(), begin() + n, value);
    size_ = n;
  }
  void insert(const Index* before, Index value) {
    const auto at = static_cast<std::size_t>(before - begin());
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void insert(const Index* before, std::size_t n, Index value) {
    const auto at = static_cast<std::size_t>(before - begin());
    resize(size_ + n, value);
    std::rotate(begin() + at, end() - n, end());
  }
  void erase(const Index* first, const Index* last) {
    std::copy(last, static_cast<const Index*>(end()), begin() + (first - begin()));
    size_ -= static_cast<std::size_t>(last - first);
  }
  void erase(const Index* at) { erase(at, at + 1); }
  void clear() { size_ = 0; }

  friend bool operator==(const IndexList& a, const IndexList& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  static constexpr std::size_t kInPlace = 6;

  [[gnu::noinline]] void copy_more(const IndexList& other) {
    more_ = std::make_unique<Index[]>(size_);
    room_ = size_;
    std::copy(other.begin(), other.end(), more_.get());
  }
  // Room for n numbers.
  void grow(std::size_t n) {
    if (n <= (more_ ? room_ : kInPlace)) return;
    const std::size_t room = std::max(n, 2 * size_);
    auto memory = std::make_unique<Index[]>(room);
    std::copy(begin(), end(), memory.get());
    more_ = std::move(memory);
    room_ = room;
  }
  void take(IndexList& other) {
    more_ = std::move(other.more_);
    if (!more_) std::memcpy(in_place_, other.in_place_, sizeof in_place_);
    room_ = other.room_;
    size_ = std::exchange(other.size_, 0);
  }

  std::size_t size_ = 0, room_ = 0;
  std::unique_ptr<Index[]> more_;  // holds the numbers once they were too many for in_place_
  Index in_place_[kInPlace] = {};
};

}  // namespace qkv
