// Values that are not finite, or whose sums are not.
#pragma once

#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

// How values are multiplied: as they are; those that are not finite by themselves, with weights above 0 alone; or so,
// all of them divided by a number that no sum of them overflows.
enum class Values { finite, any, averaged };

// A power of two, at least the number of keys: the average of values is finite though their sum may not be.
template <class T> T average_divisor(const AttentionProblem<T>& p) {
  T parts = 1;
  while (parts < static_cast<T>(p.keys)) parts *= 2;
  return parts;
}

// What a step's values are like.
template <class T> struct ValueKinds {
  bool finite[kBlockKeys];
  T largest;  // magnitude of all finite ones so far

  void look(const RowBlock<T>& rows, Index key, Index n) {
    const Index size = rows.problem->value_size;
    Vec<T> most = splat<T>(largest);
    for (Index k = 0; k < n; ++k) {
      const T* x = rows.value(key + k);
      Vec<T> zeros = {}, top = {};
      each_vector<T>(size, [&](Index i, auto at) {
        const Vec<T> value = at(x + i), magnitude = select(value < Vec<T>{}, -value, value);
        zeros += value * Vec<T>{};
        top = select(magnitude > top, magnitude, top);
      });
      finite[k] = !any(zeros != zeros);
      if (finite[k]) most = select(top > most, top, most);
    }
    largest = horizontal_max<T>(most);
  }
};

}  // namespace qkv::kernels::QKV_ISA
