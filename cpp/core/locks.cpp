#include "core/locks.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace qkv {
namespace {

// How many NoForks there are, and whether a fork lets no other begin.
std::atomic<int> no_forks{0};
std::atomic<bool> forking{false};

}  // namespace

// All there are. Never destroyed: other static objects have locks, too.
struct Registry {
  std::mutex mutex;
  Mutex* first = nullptr;
  std::vector<void (*)()> in_child;

  static Registry& get() {
    static Registry* const registry = [] {
      auto* made = new Registry;
#if !defined(_WIN32)  // where nothing forks
      pthread_atfork([] { get().take_all(); }, [] { get().give_back_all(); },
                     [] {
                       get().give_back_all();
                       for (const auto function : get().in_child) function();
                     });
#endif
      return made;
    }();
    return *registry;
  }

  void add(Mutex& added) {
    const std::lock_guard lock(mutex);
    Mutex *before = nullptr, *behind = first;
    while (behind != nullptr && behind->rank_ < added.rank_) before = std::exchange(behind, behind->behind_);
    added.before_ = before;
    added.behind_ = behind;
    (before != nullptr ? before->behind_ : first) = &added;
    if (behind != nullptr) behind->before_ = &added;
  }

  void remove(Mutex& removed) {
    const std::lock_guard lock(mutex);
    (removed.before_ != nullptr ? removed.before_->behind_ : first) = removed.behind_;
    if (removed.behind_ != nullptr) removed.behind_->before_ = removed.before_;
  }

  // The Mutexes first: a thread that holds one may be waiting for a NoFork.
  void take_all() {
    mutex.lock();
    for (Mutex* m = first; m != nullptr; m = m->behind_) m->lock();
    forking = true;
    while (no_forks != 0) std::this_thread::yield();
  }

  void give_back_all() {
    forking = false;
    for (Mutex* m = first; m != nullptr; m = m->behind_) m->unlock();
    mutex.unlock();
  }
};

Mutex::Mutex(Rank rank) : rank_(rank) { Registry::get().add(*this); }
Mutex::~Mutex() { Registry::get().remove(*this); }

NoFork::NoFork() {
  while (true) {
    ++no_forks;
    if (!forking) return;
    --no_forks;
    while (forking) std::this_thread::yield();
  }
}

NoFork::~NoFork() { --no_forks; }

Mutex& mutex_of(const void* object) {
  constexpr std::size_t kCount = 64;
  struct alignas(64) Padded {
    Mutex mutex;
  };
  static auto* const all = new std::array<Padded, kCount>;
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  return (*all)[(address ^ address >> 6 ^ address >> 12) / 16 % kCount].mutex;
}

// Made while the library is loaded, when no other thread can be about to fork.
[[maybe_unused]] const Mutex& made_early = mutex_of(nullptr);

namespace {

std::atomic<bool (*)(const std::function<void()>&)> alone{nullptr};

}  // namespace

void set_change_alone(bool (*function)(const std::function<void()>&)) { alone = function; }

bool change_alone(const std::function<void()>& change) {
  const auto function = alone.load();
  return function != nullptr && function(change);
}

void at_fork_in_child(void (*function)()) {
  const std::lock_guard lock(Registry::get().mutex);
  Registry::get().in_child.push_back(function);
}

namespace {

std::atomic<unsigned> forks_so_far{0};

[[maybe_unused]] const bool counts_forks = [] {
  at_fork_in_child([] { ++forks_so_far; });
  return true;
}();

}  // namespace

unsigned forks() { return forks_so_far; }

}  // namespace qkv
