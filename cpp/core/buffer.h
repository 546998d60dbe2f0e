// Memory of arrays: 64-byte aligned, shared, given back to a small cache for the next array of that size.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "core/noncopyable.h"
#include "core/types.h"

namespace qkv {

// A block of memory with a version that rises with every change, so that code which saved or packed the old content can
// tell. Changes by copy_, load_state_dict or an optimizer are told through raise_version; those made through a view
// that was handed out (WritableView) are found by comparing content.
class Buffer : NonCopyable {
 public:
  // Uninitialised memory of qkv's own.
  static std::shared_ptr<Buffer> allocate(std::size_t bytes);
  // Memory that stays for long: beside other such, not rounded up, and the system has it back in the end.
  static std::shared_ptr<Buffer> allocate_beside(std::size_t bytes);
  // Memory of another owner, kept alive by `owner`.
  static std::shared_ptr<Buffer> borrow(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  // The same, of an owner who means it to be shared: both read and write it for as long as they like.
  static std::shared_ptr<Buffer> share(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  // The same, of an owner who notices by itself what changes while a gradient needs it: content is never compared.
  static std::shared_ptr<Buffer> trust(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  // One whose numbers are elsewhere: its data() is null until put_in.
  static std::shared_ptr<Buffer> without_memory(std::size_t bytes);
  ~Buffer();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool borrowed() const { return owner_ != nullptr && !shared_; }
  bool own() const { return owner_ == nullptr; }  // nobody else's
  bool tells_changes() const { return own() || is_viewed(); }
  std::uint64_t version() {
    if (!watched_.load()) watched_.store(true);
    return views_.load() == 0 ? version_.load(std::memory_order_relaxed) : version_with_views();
  }
  // Another that owns the memory, without which this one stays; its version stays, too.
  std::shared_ptr<Buffer> take_out();
  // Takes the memory of `other`, which has as many bytes.
  void put_in(Buffer& other) { std::swap(data_, other.data_); }
  // In the end its memory goes back to the system instead of to the cache.
  void bypass_cache() { cached_ = false; }
  // Others know its address and hold no object for it.
  void fix() { fixed_ = true; }
  bool fixed() const { return fixed_; }
  void raise_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  // Counts, while it lives, one owner who keeps the content for a gradient and never shows it.
  class Saver {
   public:
    Saver() = default;
    explicit Saver(Buffer& buffer) : buffer_(&buffer) { ++buffer.savers_; }
    Saver(const Saver& other) : buffer_(other.buffer_) {
      if (buffer_ != nullptr) ++buffer_->savers_;
    }
    Saver(Saver&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
    Saver& operator=(Saver other) noexcept {
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Saver() {
      if (buffer_ != nullptr) --buffer_->savers_;
    }

   private:
    Buffer* buffer_ = nullptr;
  };
  int savers() const { return savers_; }
  bool is_viewed() const { return views_.load() > 0; }

 private:
  friend class WritableView;
  Buffer(void* data, std::size_t bytes, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  std::uint64_t version_with_views();
  void add_view();
  void drop_view();
  void compare();  // raises the version if the content is not that of `content_`

  void* data_;
  std::size_t bytes_;
  std::shared_ptr<void> owner_;
  bool shared_ = false, cached_ = true;
  std::atomic<bool> fixed_{false};
  std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> watched_{false};  // the version has been asked for, so a change matters
  std::atomic<int> views_{0};         // writable views that live
  std::atomic<int> savers_{0};
  std::uint64_t content_ = 0;  // hash of the content when it was last looked at
  bool known_ = false;         // content_ is set: while there are views of watched memory
};

// Lives as long as one outside (a NumPy array, a DLPack tensor) may write to the memory. Costs nothing but a count
// for memory whose version nobody has asked for; otherwise a pass through it at the first view, at the end of the last,
// and at each question for the version between.
class WritableView : NonCopyable {
 public:
  explicit WritableView(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) { buffer_->add_view(); }
  ~WritableView() { buffer_->drop_view(); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

// Memory that one call needs between its steps; comes from the same cache as arrays do.
class Scratch : NonCopyable {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_;
  std::size_t bytes_;
};

// Bytes that wait in the cache, and a way to hand them back to the system.
std::size_t cached_bytes();
void empty_cache();

}  // namespace qkv
