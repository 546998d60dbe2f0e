#include "core/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

#include "core/error.h"

namespace qkv {

const char* name(Isa isa) {
  constexpr const char* names[] = {"baseline", "avx2", "avx512"};
  return names[static_cast<std::size_t>(isa)];
}

Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::baseline;
}

int allowed_cpus() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

bool has_fused_products() {
#if defined(__x86_64__)
  return chosen_isa() != Isa::baseline;
#else
  return true;
#endif
}

bool has_bfloat16_products() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

Isa chosen_isa() {
  static const Isa isa = [] {
    const Isa best = best_isa();
    const char* forced = std::getenv("QKV_ISA");
    if (forced == nullptr || *forced == '\0') return best;
    for (const Isa level : {Isa::baseline, Isa::avx2, Isa::avx512}) {
      if (name(level) != std::string(forced)) continue;
      if (level > best) fail_value("QKV_ISA: this CPU goes up to ", name(best), "; got ", forced);
      return level;
    }
    fail_value("QKV_ISA: must be baseline, avx2 or avx512; got ", forced);
  }();
  return isa;
}

}  // namespace qkv
