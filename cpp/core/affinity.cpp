#include "core/affinity.h"

#include <algorithm>

#if defined(__linux__)
#include <pthread.h>
#endif

namespace qkv {

int allowed_cpus() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void Placement::place([[maybe_unused]] std::vector<std::thread>& workers) {
#if defined(__linux__)
  constexpr std::size_t kMost = 4;  // of more, few meet the caller, and each move of it would cost a call for each
  if (workers.size() > kMost) return;
  const int cpu = sched_getcpu();
  cpu_set_t allowed;
  if (cpu < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_CLR(static_cast<unsigned>(cpu), &allowed);
  if (CPU_COUNT(&allowed) == 0 || CPU_EQUAL(&allowed, &allowed_)) return;
  allowed_ = allowed;
  for (auto& worker : workers) pthread_setaffinity_np(worker.native_handle(), sizeof allowed, &allowed);
#endif
}

}  // namespace qkv
