// Queries become columns of a panel, and columns of a panel become rows of results.
#pragma once

#include "kernels/simd/simd.h"
#include "kernels/simd/stream.h"

namespace qkv::kernels::QKV_ISA {

template <class T> inline Index padded(Index n) { return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }

// to[lane][j] = from[j * width + lane] * factor[lane] for lanes < count and j < n, written while a product is computed.
// Stores past the caches wait in those same dozen places, so they too come one after every few multiplications.
template <class T> struct DeferredRows {
  T* const* to = nullptr;
  const T* from = nullptr;
  Index width = 0;
  const T* factor = nullptr;
  Index count = 0, n = 0;
  bool past_caches = false;  // all rows begin at multiples of 64 bytes and are written there without being read

  // Before each of so many tiles: makes its share of the lines ready, or writes them.
  void prepare(Index tiles) {
    constexpr Index w = kLanes<T>;
    if (lane_ < count) some((padded<T>(count) / w * (padded<T>(n) / w) + tiles - 1) / tiles);
  }
  // Writes one of the lines that are ready.
  void one() {
    if (written_ < ready_) write_line();
  }
  void finish();

 private:
  static constexpr Index kMostReady = 64;
  Index lane_ = 0, j_ = 0;  // the next patch of kLanes x kLanes numbers
  Index written_ = 0, ready_ = 0;
  T* target_[kMostReady];
  alignas(64) T line_[kMostReady * kLanes<T>];
  void some(Index patches);
  void write_line() {
    stream(target_[written_], load(line_ + written_ * kLanes<T>));
    ++written_;
  }
};

// to[j * width + lane] = from[lane][j] * factor for lanes < count and j < n; lanes from count to `lanes` become 0.
// `lanes` is a multiple of kLanes.
template <class T>
void columns_from_rows(T* to, Index width, const T* const* from, Index lanes, Index count, Index n, T factor = 1);
// The same, bit by bit, for kLanes rows that do not lie close together. Often they lie a multiple of 4 KiB apart and
// evict each other from the first cache, so each line of theirs is read at once.
template <class T> void columns_from_far_rows(T* to, Index width, const T* const* from, Index n);
// to[lane][j] = from[j * width + lane] * factor[lane] for lanes < count and j < n; null for factors 1.
template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n);

}  // namespace qkv::kernels::QKV_ISA
