#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/error.h"
#include "core/locks.h"

namespace qkv {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenChecks = std::chrono::milliseconds(20);
// How long a thread waits awake for more work, or for the last piece of its own. It bridges the gap between two
// operations of a layer and that between two layers in Python; waking a thread that sleeps takes longer than many
// operations.
constexpr auto kAwake = std::chrono::microseconds(50);

std::atomic<bool (*)()> interrupt_check{nullptr};
thread_local bool inside_piece = false;
thread_local bool uninterrupted = false;
thread_local int thread_limit = kMostThreads;

// When this thread asked last, or could have for the first time in its operation.
thread_local Clock::time_point asked;

bool interrupt_wanted() {
  if (uninterrupted) return false;
  const auto now = Clock::now();
  if (asked == Clock::time_point()) asked = now;
  if (now - asked < kBetweenChecks) return false;
  const auto check = interrupt_check.load(std::memory_order_relaxed);
  const bool wanted = check != nullptr && check();
  asked = Clock::now();  // the check may have waited for long
  return wanted;
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Whether ready() came true in that time.
template <class Ready> bool wait_awake(Ready ready) {
  const auto end = Clock::now() + kAwake;
  do {
    for (int spin = 0; spin < 64; ++spin) {
      if (ready()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

// The pieces of one parallel_for. Lives on the caller's stack until nobody is inside.
struct Job {
  Index begin, end, grain;
  detail::PieceFunction function;
  void* context;
  std::atomic<Index> next{0};
  int places;                  // workers that may still come
  std::atomic<int> inside{0};  // workers that may still touch this job
  std::atomic<bool> stopped{false};
  std::mutex error_mutex;
  std::exception_ptr error;
  const void* caller;  // the thread that waits for it, by what is its own

  Job(Index b, Index e, Index g, detail::PieceFunction f, void* c, int workers)
      : begin(b), end(e), grain(g), function(f), context(c), places(workers), caller(&inside_piece) {}

  bool run_one() noexcept {
    const Index piece = next.fetch_add(1, std::memory_order_relaxed);
    const Index from = begin + piece * grain;
    if (from >= end || stopped.load(std::memory_order_relaxed)) return false;
    try {
      function(context, from, std::min(end, from + grain));
    } catch (...) {
      fail(std::current_exception());
    }
    return true;
  }

  void fail(std::exception_ptr what) noexcept {
    const std::lock_guard lock(error_mutex);
    if (!error) error = std::move(what);
    stopped.store(true, std::memory_order_relaxed);
  }
};

thread_local const Job* working_on = nullptr;

bool stopped(const Job* job) { return job != nullptr && job->stopped.load(std::memory_order_relaxed); }

// Runs pieces until none is left; the caller's thread asks whether to stop.
void work_on(Job& job) {
  const Job* const outer = std::exchange(working_on, &job);
  const bool nested = std::exchange(inside_piece, true);  // a parallel_for inside a piece stays on this thread
  while (job.run_one())
    if (job.caller == &inside_piece && (stopped(outer) || interrupt_wanted()))
      job.fail(std::make_exception_ptr(Interrupted()));
  inside_piece = nested;
  working_on = outer;
}

class Pool {
 public:
  // Offers the job to the workers; false if another thread's job is being worked on.
  bool offer(Job* job) {
    {
      std::unique_lock lock(mutex_, std::defer_lock);
      // A worker holds it for moments only, on its way to sleep or back; a job would be the caller's alone for that.
      for (int tries = 0; !lock.try_lock(); ++tries) {
        if (tries == 64) return false;
        relax();
      }
      if (job_ != nullptr || quit_) return false;
      enlist(job->places);
      job_ = job;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_.notify_all();
    return true;
  }

  // Takes the job back and waits for the workers that had begun it.
  void withdraw(Job* job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = nullptr;
    }
    while (!wait_awake([&] { return job->inside.load(std::memory_order_acquire) == 0; })) {
      std::this_thread::yield();
      if (interrupt_wanted()) job->fail(std::make_exception_ptr(Interrupted()));
    }
  }

  void stop() {
    std::vector<std::thread> leaving;
    {
      const std::lock_guard lock(mutex_);
      leaving.swap(threads_);
      quit_ = true;
      epoch_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& thread : leaving) thread.join();
    const std::lock_guard lock(mutex_);
    quit_ = false;
  }

 private:
  // As many workers as that, or as the system gives.
  void enlist(int workers) {
    while (static_cast<int>(threads_.size()) < workers) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        return;
      }
    }
  }

  void work() {
    std::uint64_t seen = 0;
    while (true) {
      Job* job = wait_for_job(seen);
      if (job == nullptr) {
        const std::lock_guard lock(mutex_);
        if (quit_) return;
        continue;
      }
      work_on(*job);
      job->inside.fetch_sub(1, std::memory_order_release);
    }
  }

  Job* wait_for_job(std::uint64_t& seen) {
    wait_awake([&] { return epoch_.load(std::memory_order_acquire) != seen; });
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return epoch_.load(std::memory_order_relaxed) != seen || quit_; });
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    seen = epoch_.load(std::memory_order_relaxed);
    if (job_ == nullptr || job_->places == 0) return nullptr;
    --job_->places;
    job_->inside.fetch_add(1, std::memory_order_relaxed);
    return job_;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> threads_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<int> sleepers_{0};
  Job* job_ = nullptr;
  bool quit_ = false;
};

std::atomic<RunOnThreads> borrowed_threads{nullptr};

// Never destroyed, and replaced in a forked child, where the old one's threads do not exist.
std::atomic<Pool*> the_pool{nullptr};

Pool& pool() { return *the_pool.load(std::memory_order_relaxed); }

// Made while the library is loaded, when no other thread can be about to fork.
[[maybe_unused]] const bool made_early = [] {
  the_pool = new Pool;
  at_fork_in_child([] {
    the_pool = new Pool;
    borrowed_threads = nullptr;
  });
  return true;
}();

// Held while workers end, which ask for nothing but memory.
Mutex& changing_threads() {
  static auto* const mutex = new Mutex(Mutex::Rank::outer);
  return *mutex;
}

[[maybe_unused]] const Mutex& changing_made_early = changing_threads();

// The first number of the list in a variable of the environment; no limit if there is none.
int threads_by(const char* variable) {
  const char* text = std::getenv(variable);
  const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return count < 1 || count > kMostThreads ? kMostThreads : static_cast<int>(count);
}

int default_threads() {
  const char* text = std::getenv("QKV_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    char* rest = nullptr;
    const long count = std::strtol(text, &rest, 10);
    if (*rest != '\0' || count < 1 || count > kMostThreads)
      fail_value("QKV_NUM_THREADS: must be a number from 1 to 1024; got ", text);
    return static_cast<int>(count);
  }
  // Those by which the workers of joblib and others share the CPUs.
  return std::min({allowed_cpus(), threads_by("OMP_NUM_THREADS"), threads_by("OPENBLAS_NUM_THREADS")});
}

std::atomic<int>& thread_count() {
  static std::atomic<int> count{default_threads()};
  return count;
}

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int count) {
  if (count < 1 || count > kMostThreads) fail_value("set_num_threads: n must be from 1 to 1024; got ", count);
  const Lock lock(changing_threads());
  if (count < num_threads()) pool().stop();
  thread_count() = count;
}

void borrow_threads(RunOnThreads run) { borrowed_threads = run; }

int limit_threads(int count) {
  if (count < 1) fail_value("limit_threads: n must be at least 1; got ", count);
  return std::exchange(thread_limit, std::min(count, kMostThreads));
}

void set_interrupt_check(bool (*check)()) { interrupt_check = check; }

void begin_operation() { asked = Clock::time_point(); }

void throw_if_interrupted() {
  if (stopped(working_on) || interrupt_wanted()) throw Interrupted();
}

Uninterrupted::Uninterrupted() : before_(uninterrupted) { uninterrupted = true; }
Uninterrupted::~Uninterrupted() { uninterrupted = before_; }

void detail::run_pieces(Index begin, Index end, Index grain, PieceFunction function, void* context) {
  const Index pieces = (end - begin + grain - 1) / grain;
  const int workers = static_cast<int>(std::min<Index>(std::min(num_threads(), thread_limit), pieces)) - 1;
  Job job(begin, end, grain, function, context, workers);
  const bool nested = inside_piece;
  const auto borrowed = thread_limit < kMostThreads ? borrowed_threads.load(std::memory_order_relaxed) : nullptr;
  if (!nested && workers > 0 && borrowed != nullptr) {
    borrowed([](void* data) { work_on(*static_cast<Job*>(data)); }, &job, static_cast<unsigned>(workers + 1), 0);
  } else {
    const bool shared = !nested && workers > 0 && pool().offer(&job);
    work_on(job);
    if (shared) pool().withdraw(&job);
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace qkv
