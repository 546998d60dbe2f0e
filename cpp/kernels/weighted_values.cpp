#include "kernels/weighted_values.h"

#include "core/counter_random.h"
#include "kernels/simd/family.h"
#include "kernels/simd/simd.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// 0 * x is 0 exactly for finite x.
template <class T> bool finite(const T* x, Index n) {
  Vec<T> sum = {}, others[3] = {};
  Index i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>) {
    sum += load(x + i) * Vec<T>{};
    for (Index k = 0; k < 3; ++k) others[k] += load(x + i + (k + 1) * kLanes<T>) * Vec<T>{};
  }
  sum += (others[0] + others[1]) + others[2];
  for (; i + kLanes<T> <= n; i += kLanes<T>) sum += load(x + i) * Vec<T>{};
  if (i < n) sum += load_part(x + i, n - i) * Vec<T>{};
  return !any(sum != Vec<T>{});
}

template <class T> void keep(T* y, const T* x, const bool* kept, Index step, T scale, Index n) {
  for (Index j = 0; j < n; ++j) y[j] = kept[j * step] ? x[j] * scale : T(0);
}

template <class T> void drop(T* y, const T* x, uint64_t key, uint64_t matrix, uint64_t query, double p, Index n) {
  const CounterRow row = counter_row(key, matrix, query);
  const uint32_t threshold = counter_threshold(p);
  const T scale = p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
  for (Index j = 0; j < n; ++j) y[j] = counter_keep(row, static_cast<uint32_t>(j), threshold) ? x[j] * scale : T(0);
}

}  // namespace

QKV_FAMILY(WeightedValues, finite<T>, keep<T>, drop<T>)

}  // namespace qkv::kernels::QKV_ISA
