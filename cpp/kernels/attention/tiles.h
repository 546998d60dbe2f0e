// Products of a panel of queries with a range of keys, and what runs beside them.
//
// Scores are in memory with one key per line and one query per lane ("key-major"): S[key][query]. So the softmax needs
// no horizontal step, keys and values are read where they are, one number at a time for a whole vector of queries, and
// only the queries (once per panel) and the result are transposed.
#pragma once

#include "kernels/attention/transposes.h"
#include "kernels/matmul/microkernel.h"

namespace qkv::kernels::QKV_ISA {

// Lines of memory that will be read soon, fetched into the second-level cache a few before each tile: a core has no
// more than about a dozen lines under way.
class PrefetchQueue {
 public:
  void clear() { segments_ = at_ = line_ = lines_ = share_ = 0; }
  // `rows` rows of n numbers, `stride` apart.
  template <class T> void add(const T* first, Index rows, Index stride, Index n) {
    if (segments_ == kMostSegments || rows <= 0 || n <= 0) return;
    constexpr Index size = sizeof(T);
    const bool adjoin = stride == n;
    const Index lines = ((adjoin ? rows * n : n) * size + 63) / 64;
    segment_[segments_++] = {reinterpret_cast<const char*>(first), stride * size, lines, adjoin ? 1 : rows};
    lines_ += lines * (adjoin ? 1 : rows);
  }
  // Fetches evenly before so many tiles.
  void spread(Index tiles) { share_ = tiles > 0 ? (lines_ + tiles - 1) / tiles : 0; }
  void before_tile() {
    for (Index i = 0; i < share_; ++i) {
      if (at_ == segments_) {
        share_ = 0;
        return;
      }
      Segment& s = segment_[at_];
      __builtin_prefetch(s.row + line_ * 64, 0, 2);
      if (++line_ < s.lines) continue;
      line_ = 0;
      s.row += s.stride;
      if (--s.rows == 0) ++at_;
    }
  }

 private:
  struct Segment {
    const char* row;
    Index stride, lines, rows;
  };
  static constexpr Index kMostSegments = 192;
  Index segments_, at_, line_, lines_, share_;
  Segment segment_[kMostSegments];
};

// c (rows, vectors * kLanes) = a (rows, depth) @ b (depth, vectors * kLanes). With 32 registers the rows of a that the
// next tile reads are fetched into the first-level cache: whole rows if they are `cold`, else their first lines.
template <class T>
void multiply_panel(const TileProduct<T>& product, Index rows, Index vectors, PrefetchQueue* queue, bool cold);
// The same with a[row][k] at a[k * stride + row]. Rows of the weights are written at the same time, if there are any.
template <class T>
void multiply_transposed(const TileProduct<T>& product, Index rows, Index vectors, PrefetchQueue* queue,
                         DeferredRows<T>* deferred);
// As multiply_transposed, but where b is 0 nothing is added, so that 0 * infinity and 0 * NaN in a leave no trace.
// Slow.
template <class T>
void multiply_skipping(const TileProduct<T>& product, Index rows, Index vectors, PrefetchQueue* queue,
                       DeferredRows<T>* deferred);
// c (rows, columns) += a @ b, columns a multiple of kLanes, where the product may have groups. `skipping` adds nothing
// where a is 0.
template <class T> void add_product(const TileProduct<T>& product, Index rows, Index columns, bool skipping);

}  // namespace qkv::kernels::QKV_ISA
