// What the product of attention weights with values needs beside a matrix product.
#pragma once

#include <stdint.h>

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct WeightedValues {
  // Whether all n numbers are finite.
  bool (*finite)(const T* x, Index n);
  // y[j] = keep[j * step] ? x[j] * scale : 0
  void (*keep)(T* y, const T* x, const bool* keep, Index step, T scale, Index n);
  // The same with row `query` of the matrix `matrix` of the counter-based stream (core/counter_random.h).
  void (*drop)(T* y, const T* x, uint64_t key, uint64_t matrix, uint64_t query, double p, Index n);
};

}  // namespace qkv::kernels
