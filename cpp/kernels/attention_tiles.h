// Building blocks of the attention kernels. Internal to attention*.cpp.
//
// Scores stand with one key per line and one query per lane ("key-major"): S[key][row]. So the softmax needs no
// horizontal step, keys and values are read where they stand, one number at a time for a whole vector of queries, and
// only the queries (once per block of rows) and the result are transposed.
#pragma once

#include "kernels/simd.h"
#include "kernels/simd_stream.h"
#include "kernels/weight_of.h"

namespace qkv::kernels::QKV_ISA {

// Vectors of queries per block of rows, and keys per step of the online softmax. With 32 registers the accumulators
// of 6 keys x 4 vectors (or 8 x 3, 12 x 2, 12 x 1) stay in them, with 16 registers those of 6 x 2 (or 8 x 1).
#if defined(__AVX512F__)
constexpr Index kMaxVectors = 4;
constexpr Index kTileRows[kMaxVectors + 1] = {0, 12, 12, 8, 6};
#else
constexpr Index kMaxVectors = 2;
constexpr Index kTileRows[kMaxVectors + 1] = {0, 8, 6};
#endif
// Keys per step. Measured at L = 1024, D = 64 on a Cascade Lake core (peak 153 GFLOP/s): 36 keys 104, 72 keys 106,
// 120 keys 110, 240 keys 108 GFLOP/s; 3 vectors with 120 keys 110, 2 vectors with 240 keys 106.
constexpr Index kBlockKeys = 128;
// Keys per step for a range of them: equal steps, since a last step of 8 keys would be as dear as one of 40, and whole
// cache lines of a mask or of weights.
inline Index key_step(Index keys) {
  const Index steps = (keys + kBlockKeys - 1) / kBlockKeys;
  return steps == 0 ? 1 : ((keys + steps - 1) / steps + 15) / 16 * 16;
}
template <class T> constexpr Index kBlockRows = kMaxVectors * kLanes<T>;

template <class T> inline Index padded(Index n) { return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }

// How a product meets what stands in c.
enum class Into {
  replace,  // c = product
  add,      // c = c + product
  scale     // c = c * factor[column] + product
};

// Lines of memory that the next step will read, to be fetched into the second cache while this one computes: one after
// every few multiplications, because a core has no more than about a dozen lines under way.
struct LinesAhead {
  void clear() { rows_ = at_ = line_ = 0; }
  void add(const void* row, Index bytes) {
    if (at_ == rows_) clear();
    if (rows_ == kMostRows || bytes == 0) return;
    row_[rows_] = static_cast<const char*>(row);
    lines_[rows_++] = (bytes + 63) / 64;
  }
  void prepare(Index) {}
  // Fetches the next line.
  void one() {
    if (at_ == rows_) return;
    __builtin_prefetch(row_[at_] + line_ * 64, 0, 2);
    if (++line_ == lines_[at_]) {
      line_ = 0;
      ++at_;
    }
  }

 private:
  static constexpr Index kMostRows = 256;
  Index rows_ = 0, at_ = 0, line_ = 0;
  const char* row_[kMostRows];
  Index lines_[kMostRows];
};

// to[lane][j] = from[j * width + lane] * factor[lane] for lanes < count and j < n, written while a product is computed.
// Stores past the caches wait in those same dozen places, so they too come one after every few multiplications.
template <class T> struct RowsBehind {
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

// c (rows, vectors * kLanes; ldc) = a (rows, depth) @ b (depth, vectors * kLanes; ldb), vectors <= kMaxVectors.
// a[row][k] is a[row * stride + k].
template <class T>
void product(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index rows,
             Index depth, Index vectors, LinesAhead* ahead = nullptr);
// The same with a[row][k] at a[k * stride + row].
template <class T>
void product_transposed(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                        Index rows, Index depth, Index vectors, RowsBehind<T>* behind = nullptr);
// As product_transposed, but where b is 0 nothing is added, so that 0 * infinity and 0 * NaN in a leave no trace. Slow.
template <class T>
void product_skipping(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index rows, Index depth, Index vectors, RowsBehind<T>* behind = nullptr);

// to[j * width + lane] = from[lane][j] for lanes < count and j < n; lanes from count to `lanes` become 0. `lanes` is a
// multiple of kLanes.
template <class T> void columns_from_rows(T* to, Index width, const T* const* from, Index lanes, Index count, Index n);
// The same for kLanes rows that do not lie close together. Often they lie a multiple of 4 KiB apart and drive each
// other out of the first cache, so each line of theirs is read at once.
template <class T> void columns_from_far_rows(T* to, Index width, const T* const* from, Index n);
// to[lane][j] = from[j * width + lane] * factor[lane] for lanes < count and j < n.
template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n);

}  // namespace qkv::kernels::QKV_ISA
