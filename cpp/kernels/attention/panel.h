// A panel of queries on its way through the keys in the forward pass.
#pragma once

#include <math.h>
#include <string.h>

#include "kernels/attention/online_softmax.h"
#include "kernels/attention/query_tile.h"

namespace qkv::kernels::QKV_ISA {

template <class T> struct Panel {
  RowBlock<T> rows;
  OnlineSoftmax<T> softmax;
  KeyStep step;
  bool begun[kMaxVectors];  // whether out holds anything yet
  T* queries;               // (D, width), times scale
  T* out;                   // (Dv, width), not yet divided by the sum; for few rows (rows, Dv rounded up to vectors)
  T* scores;                // (keys of a step, width)
  T not_finite[kPanelWidth<T>];  // with values of any kind: weights of those that are not finite

  void start() {
    for (T& weight : not_finite) weight = 0;
    const T* sinks = rows.problem->sinks;
    const bool divides = rows.problem->normalizer == Normalizer::softmax;
    if (!divides) softmax.divide_by_one(rows.width);
    for (Index lane = 0; divides && lane < rows.width; ++lane) {
      softmax.largest[lane] = sinks != nullptr ? sinks[rows.head[lane]] : static_cast<T>(-INFINITY);
      softmax.sum[lane] = softmax.largest[lane] > static_cast<T>(-INFINITY) ? T(1) : T(0);
    }
    for (bool& b : begun) b = false;
    if (rows.is_decode()) memset(out, 0, sizeof(T) * padded<T>(rows.problem->value_size) * rows.rows);
  }
  void zero_out(Index vector) {
    for (Index i = 0; i < rows.problem->value_size; ++i) store(out + i * rows.width + vector * kLanes<T>, Vec<T>{});
    begun[vector] = true;
  }
  // Whether a part's first product may replace what is in out; if only for some of its vectors, these become 0.
  StoreMode begin(const StepPart& part) {
    Index new_ones = 0;
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) new_ones += !begun[v];
    for (Index v = part.vector; v < part.vector + part.vectors; ++v) {
      if (!begun[v] && new_ones < part.vectors) zero_out(v);
      begun[v] = true;
    }
    return new_ones == part.vectors ? StoreMode::overwrite : StoreMode::rescale;
  }
  void finish() {
    softmax.finish(rows.width);
    if (rows.is_decode()) return;
    for (Index v = 0; v < rows.vectors; ++v)
      if (!begun[v]) zero_out(v);
  }
};

}  // namespace qkv::kernels::QKV_ISA
