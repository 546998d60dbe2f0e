// How changes through views that were handed out are noticed.
#include <array>
#include <cstring>

#include "core/buffer.h"
#include "core/locks.h"

namespace qkv {
namespace {

// Guards content_ and known_ of all buffers. Never destroyed: views may outlive static destructors.
Mutex& views_mutex() {
  static auto* const instance = new Mutex(Mutex::Rank::inner);
  return *instance;
}

[[maybe_unused]] const Mutex& made_early = views_mutex();  // no thread is making it during a fork

// Every step is a bijection of the lane for a given word and of the word for a given lane, so a change of one word is
// found for certain, and others except for one in 2^64. Eight lanes side by side: 20 GB/s.
std::uint64_t mixed(std::uint64_t lane, std::uint64_t word) {
  lane = (lane ^ word) * 0xd6e8feb86659fd93u;
  return lane ^ (lane >> 32);
}

std::uint64_t hash(const void* data, std::size_t bytes) {
  constexpr std::size_t kLanes = 8, kWord = sizeof(std::uint64_t);
  std::array<std::uint64_t, kLanes> lanes{1, 2, 3, 4, 5, 6, 7, 8};
  const char* at = static_cast<const char*>(data);
  for (; bytes >= kLanes * kWord; at += kLanes * kWord, bytes -= kLanes * kWord) {
    std::array<std::uint64_t, kLanes> words;
    std::memcpy(words.data(), at, sizeof(words));
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(lanes[i], words[i]);
  }
  std::array<std::uint64_t, kLanes> rest{};
  if (bytes > 0) std::memcpy(rest.data(), at, bytes);
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < kLanes; ++i) result = mixed(result, mixed(lanes[i], rest[i]));
  return result;
}

}  // namespace

void Buffer::compare() {
  const std::uint64_t now = hash(data_, bytes_);
  if (known_ && now != content_) raise_version();
  content_ = now;
  known_ = true;
}

std::uint64_t Buffer::version_with_views() {
  const Lock lock(views_mutex());
  compare();
  return version_.load(std::memory_order_relaxed);
}

// The count rises before watched_ is read, and version() sets watched_ before it reads the count: one of the two sees
// the other.
void Buffer::add_view() {
  const bool first = views_.fetch_add(1) == 0;
  if (!watched_.load()) return;
  const Lock lock(views_mutex());
  if (first) known_ = false;
  if (!known_) compare();
}

void Buffer::drop_view() {
  if (watched_.load()) {
    const Lock lock(views_mutex());
    if (views_.load() == 1) compare();
  }
  views_.fetch_sub(1);
}

}  // namespace qkv
