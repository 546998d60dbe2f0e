#include "core/buffer.h"

#include <bit>
#include <cstdlib>
#include <new>
#include <vector>

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

#include "core/locks.h"

namespace qkv {
namespace {

// Fresh pages cost about 0.2 us per 4 KiB when they are first touched, and on virtual machines five times that (the
// scores of 2,048 tokens and 50,000 words a fifth of a model), so blocks are kept. Sizes are rounded up to
// one of four steps per power of two; a request is served by a kept block of its own rounded size.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostKept = std::size_t{512} << 20;
// From here on pages of 2 MiB are asked for, which are first touched, and translated, 512 at a time: layer_norm of
// 64 MB came from 71 to 83 % of the pace of a copy, an embedding from 72 to 77.
constexpr std::size_t kLarge = std::size_t{4} << 20, kHugePage = std::size_t{2} << 20;
constexpr int kClasses = 64 * 4;

std::size_t rounded(std::size_t bytes) {
  if (bytes <= 256) return 256;
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

int size_class(std::size_t rounded_bytes) {
  const int log = static_cast<int>(std::bit_width(rounded_bytes)) - 1;
  return log * 4 + static_cast<int>((rounded_bytes >> (log - 2)) & 3);
}

struct Cache {
  Mutex mutex{Mutex::Rank::inner};
  std::vector<void*> free[kClasses];
  std::size_t bytes = 0;
};

// Never destroyed: arrays may outlive static destructors.
Cache& cache() {
  static auto* const instance = new Cache;
  return *instance;
}

[[maybe_unused]] const Cache& made_early = cache();  // no thread is making it during a fork

void* aligned_block(std::size_t alignment, std::size_t bytes) {
#if defined(_WIN32)
  return _aligned_malloc(bytes, alignment);
#else
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#endif
}

void free_block(void* block) {
#if defined(_WIN32)
  _aligned_free(block);
#else
  std::free(block);
#endif
}

// What lies between blocks in use stays resident unless the system is told.
void empty_pages([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_DONTNEED)
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t first = (address + page - 1) / page * page, last = (address + bytes) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
#endif
}

void* take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  {
    Cache& kept = cache();
    const Lock lock(kept.mutex);
    auto& blocks = kept.free[size_class(size)];
    if (!blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      kept.bytes -= size;
      return block;
    }
  }
  const std::size_t alignment = size >= kLarge ? kHugePage : kAlignment;
  void* block = aligned_block(alignment, size);
  if (block == nullptr) {  // what waits for arrays of other sizes may be the room that is missing
    empty_cache();
    block = aligned_block(alignment, size);
  }
  if (block == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (size >= kLarge) madvise(block, size, MADV_HUGEPAGE);
#endif
  return block;
}

void free_all(Cache& kept) {
  for (auto& blocks : kept.free) {
    for (void* block : blocks) free_block(block);
    blocks.clear();
  }
  kept.bytes = 0;
}

void give(void* block, std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  if (size <= kMostKept) {
    Cache& kept = cache();
    const Lock lock(kept.mutex);
    if (size > kept.bytes && kept.bytes + size > kMostKept) free_all(kept);  // a larger one takes the place of all
    if (kept.bytes + size <= kMostKept) {
      try {
        kept.free[size_class(size)].push_back(block);
        kept.bytes += size;
        return;
      } catch (const std::bad_alloc&) {  // no room to remember it: free it instead
      }
    }
  }
  free_block(block);
}

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate(std::size_t bytes) {
  return std::shared_ptr<Buffer>(new Buffer(take(bytes), bytes, nullptr));
}

std::shared_ptr<Buffer> Buffer::borrow(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  return std::shared_ptr<Buffer>(new Buffer(data, bytes, std::move(owner)));
}

std::shared_ptr<Buffer> Buffer::trust(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer = borrow(data, bytes, std::move(owner));
  buffer->shared_ = true;
  return buffer;
}

std::shared_ptr<Buffer> Buffer::share(void* data, std::size_t bytes, std::shared_ptr<void> owner) {
  std::shared_ptr<Buffer> buffer = trust(data, bytes, std::move(owner));
  buffer->add_view();
  return buffer;
}

std::shared_ptr<Buffer> Buffer::without_memory(std::size_t bytes) {
  return std::shared_ptr<Buffer>(new Buffer(nullptr, bytes, nullptr));
}

namespace {

std::shared_ptr<Buffer> allocate_apart(std::size_t bytes) {
  std::shared_ptr<Buffer> memory = Buffer::allocate(bytes);
  memory->bypass_cache();
  return memory;
}

}  // namespace

#if defined(MADV_HUGEPAGE)

namespace {

// Memory for many blocks, in pages of 2 MiB, which a block of its own does not fill: reading 100 matrices of 2 MB in
// turn came from 20 to 28 GB/s.
class Arena : NonCopyable {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  Arena() : memory_(static_cast<char*>(aligned_block(kHugePage, kBytes))) {
    if (is_there()) madvise(memory_, kBytes, MADV_HUGEPAGE);
  }
  ~Arena() { free_block(memory_); }
  bool is_there() const { return memory_ != nullptr; }
  // Null if there is no room.
  char* take(std::size_t bytes) {
    if (used_ + bytes > kBytes) return nullptr;
    return memory_ + std::exchange(used_, used_ + bytes);
  }

 private:
  char* const memory_;
  std::size_t used_ = 0;
};

struct LastArena {
  Mutex mutex{Mutex::Rank::inner};
  std::shared_ptr<Arena> arena;
};

LastArena& last_arena() {
  static auto* const instance = new LastArena;
  return *instance;
}

[[maybe_unused]] const LastArena& arena_made_early = last_arena();

}  // namespace

std::shared_ptr<Buffer> Buffer::allocate_beside(std::size_t bytes) {
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (size > Arena::kBytes / 2) return allocate_apart(bytes);
  LastArena& last = last_arena();
  std::shared_ptr<Arena> arena;
  char* block = nullptr;
  {
    const Lock lock(last.mutex);
    if (last.arena && last.arena.use_count() > 1) block = last.arena->take(size);
    if (block == nullptr) {
      arena = std::make_shared<Arena>();
      if (arena->is_there()) block = (last.arena = arena)->take(size);
    } else arena = last.arena;
  }
  if (block == nullptr) return allocate_apart(bytes);  // there is no room for so much at a time
  return borrow(block, bytes, {block, [arena, size](void* p) { empty_pages(p, size); }});
}

#else

std::shared_ptr<Buffer> Buffer::allocate_beside(std::size_t bytes) { return allocate_apart(bytes); }

#endif

std::shared_ptr<Buffer> Buffer::take_out() {
  std::shared_ptr<Buffer> memory = without_memory(bytes_);
  memory->put_in(*this);
  return memory;
}

Buffer::~Buffer() {
  if (owner_ || data_ == nullptr) return;
  if (cached_) {
    give(data_, bytes_);
  } else {
    empty_pages(data_, bytes_);
    free_block(data_);
  }
}

Scratch::Scratch(std::size_t bytes) : data_(take(bytes)), bytes_(bytes) {}
Scratch::~Scratch() { give(data_, bytes_); }

std::size_t cached_bytes() {
  Cache& kept = cache();
  const Lock lock(kept.mutex);
  return kept.bytes;
}

void empty_cache() {
  Cache& kept = cache();
  const Lock lock(kept.mutex);
  free_all(kept);
#if defined(__GLIBC__)
  malloc_trim(0);  // blocks of less than some MiB come from a heap whose end may still be in use
#endif
}

}  // namespace qkv
