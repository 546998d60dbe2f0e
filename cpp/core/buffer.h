// Memory of arrays: 64-byte aligned, shared, given back to a small cache for the next array of that size.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/types.h"

namespace qkv {

// A block of memory with a version that rises with every change made through copy_, load_state_dict or an
// optimizer, so that whoever saved or packed the old content can tell.
class Buffer {
 public:
  // Uninitialised memory of qkv's own.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  // Somebody else's memory, kept alive by `owner`.
  static std::shared_ptr<Buffer> borrow(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool borrowed() const { return owner_ != nullptr; }
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void raise_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  Buffer(void* data, std::size_t bytes, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}

  void* data_;
  std::size_t bytes_;
  std::shared_ptr<void> owner_;
  std::atomic<std::uint64_t> version_{0};
};

// Memory that one call needs between its steps; comes from the same cache as arrays do.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_;
  std::size_t bytes_;
};

// Bytes that wait in the cache, and a way to hand them back to the system.
std::size_t cached_bytes();
void empty_cache();

}  // namespace qkv
