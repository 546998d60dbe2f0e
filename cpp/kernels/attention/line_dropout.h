// Dropout of weights, a line of rows at a time.
#pragma once

#include "core/counter_random.h"
#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

// 1 / (1 - p), the factor of weights that are kept.
template <class T> inline T kept_factor(const AttentionProblem<T>& p) {
  return p.dropout.p < 1 ? static_cast<T>(1 / (1 - p.dropout.p)) : T(0);
}

// What the stream keeps of a panel's rows.
template <class T> struct LineDropout {
  // Of a problem without dropout nothing.
  explicit LineDropout(const RowBlock<T>& block)
      : factor(kept_factor(*block.problem)),
        threshold(counter_threshold(block.problem->dropout.p)),
        origin_key(block.problem->dropout.origin.key) {
    const DropoutOptions& dropout = block.problem->dropout;
    for (Index lane = 0; drops(*block.problem) && lane < block.width; ++lane) {
      const Index matrix = (block.batch + dropout.origin.batch) * block.problem->heads + block.head[lane];
      const CounterRow row = counter_row(dropout.key, static_cast<uint64_t>(matrix),
                                         static_cast<uint64_t>(block.query[lane] + dropout.origin.query));
      first[lane] = row.first;
      second[lane] = row.second;
    }
  }
  // to = from times 1 / (1 - p) or 0, of `lanes` rows from `lane` on and one key.
  void line(T* to, const T* from, Index key, Index lane, Index lanes) const {
    const uint32_t column = static_cast<uint32_t>(origin_key + key);
    for (Index i = 0; i < lanes; ++i) {
      const bool keep = counter_keep({first[lane + i], second[lane + i]}, column, threshold);
      to[i] = keep ? from[i] * factor : T(0);
    }
  }

  T factor;
  uint32_t threshold;
  Index origin_key;
  uint32_t first[kPanelWidth<T>], second[kPanelWidth<T>];
};

}  // namespace qkv::kernels::QKV_ISA
