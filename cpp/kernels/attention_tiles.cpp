#include "kernels/attention_tiles.h"

#include "kernels/simd_transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// What a tile does meanwhile.
template <class T, bool Transposed> struct MeanwhileType {
  using Type = LinesAhead;
};
template <class T> struct MeanwhileType<T, true> {
  using Type = RowsBehind<T>;
};
template <class T, bool Transposed> using Meanwhile = typename MeanwhileType<T, Transposed>::Type;

// Tile R x V vectors: R * V accumulators stay in registers over the whole depth; each step loads V vectors of b and
// broadcasts R numbers of a.
template <class T, int R, int V, bool Transposed>
void tile(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index depth,
          Meanwhile<T, Transposed>* meanwhile) {
  Vec<T> sum[R][V] = {};
  const auto step = [&](Index k) __attribute__((always_inline)) {
    // The rows of a that a step reads lie apart, and the next tile of the same rows needs the same lines.
    if constexpr (Transposed) {
      __builtin_prefetch(a + (k + 8) * stride);
      if constexpr (R > 8) __builtin_prefetch(a + (k + 8) * stride + R - 1);
    } else __builtin_prefetch(a + R * stride + R * k);
    Vec<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(b + k * ldb + v * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat<T>(Transposed ? a[k * stride + r] : a[r * stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  };
  Index k = 0;
  if (meanwhile != nullptr)
    for (; k + 2 <= depth; k += 2) {
      step(k);
      step(k + 1);
      meanwhile->one();
    }
  for (; k < depth; ++k) step(k);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    if (into == Into::replace) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) store(c + r * ldc + v * kLanes<T>, sum[r][v]);
    } else {
      const Vec<T> keep = into == Into::scale ? load(factor + v * kLanes<T>) : splat<T>(1);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        T* to = c + r * ldc + v * kLanes<T>;
        store(to, load(to) * keep + sum[r][v]);
      }
    }
  }
}

template <class T, bool Transposed>
using Tile = void (*)(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index depth, Meanwhile<T, Transposed>* meanwhile);

// The tile of R rows, or the highest there is for V vectors.
template <class T, int R, int V, bool Transposed>
constexpr Tile<T, Transposed> kTile = tile<T, (R < kTileRows[V] ? R : static_cast<int>(kTileRows[V])), V, Transposed>;

template <class T, int V, bool Transposed> Tile<T, Transposed> tile_of(Index rows) {
  static_assert(kTileRows[V] <= 12);
  static constexpr Tile<T, Transposed> all[13] = {nullptr,
                                                  kTile<T, 1, V, Transposed>,
                                                  kTile<T, 2, V, Transposed>,
                                                  kTile<T, 3, V, Transposed>,
                                                  kTile<T, 4, V, Transposed>,
                                                  kTile<T, 5, V, Transposed>,
                                                  kTile<T, 6, V, Transposed>,
                                                  kTile<T, 7, V, Transposed>,
                                                  kTile<T, 8, V, Transposed>,
                                                  kTile<T, 9, V, Transposed>,
                                                  kTile<T, 10, V, Transposed>,
                                                  kTile<T, 11, V, Transposed>,
                                                  kTile<T, 12, V, Transposed>};
  return all[rows];
}

template <class T, bool Transposed> Tile<T, Transposed> tile_for(Index rows, Index vectors) {
  switch (vectors) {
    case 1:
      return tile_of<T, 1, Transposed>(rows);
#if defined(__AVX512F__)
    case 2:
      return tile_of<T, 2, Transposed>(rows);
    case 3:
      return tile_of<T, 3, Transposed>(rows);
#endif
    default:
      return tile_of<T, kMaxVectors, Transposed>(rows);
  }
}

// Rows in tiles of nearly equal height: 64 rows by at most 6 are 9 tiles of 6 and 2 of 5.
template <class T, bool Transposed>
void in_tiles(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index rows,
              Index depth, Index vectors, Meanwhile<T, Transposed>* meanwhile) {
  if (rows == 0) return;
  const Index most = kTileRows[vectors], tiles = (rows + most - 1) / most;
  const Index height = rows / tiles, higher = rows % tiles;
  Index row = 0;
  const auto run = [&](Index count, Index h) {
    const Tile<T, Transposed> f = tile_for<T, Transposed>(h, vectors);
    for (Index i = 0; i < count; ++i, row += h) {
      if (meanwhile != nullptr) meanwhile->prepare(tiles);
      f(into, c + row * ldc, ldc, factor, a + (Transposed ? row : row * stride), stride, b, ldb, depth, meanwhile);
    }
  };
  if (higher > 0) run(higher, height + 1);
  run(tiles - higher, height);
}

template <class T> inline void store_first(T* p, Vec<T> v, Index n) {
  if (n >= kLanes<T>) store(p, v);
  else store_part(p, v, n);
}
template <class T> inline Vec<T> load_first(const T* p, Index n) { return n >= kLanes<T> ? load(p) : load_part(p, n); }

}  // namespace

template <class T>
void product(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index rows,
             Index depth, Index vectors, LinesAhead* ahead) {
  in_tiles<T, false>(into, c, ldc, factor, a, stride, b, ldb, rows, depth, vectors, ahead);
}

template <class T>
void product_transposed(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                        Index rows, Index depth, Index vectors, RowsBehind<T>* behind) {
  in_tiles<T, true>(into, c, ldc, factor, a, stride, b, ldb, rows, depth, vectors, behind);
}

template <class T>
void product_skipping(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index rows, Index depth, Index vectors, RowsBehind<T>* behind) {
  if (behind != nullptr) behind->finish();
  for (Index r = 0; r < rows; ++r) {
    for (Index v = 0; v < vectors; ++v) {
      Vec<T> sum = {};
      for (Index k = 0; k < depth; ++k) {
        const Vec<T> right = load(b + k * ldb + v * kLanes<T>);
        sum = select(right == Vec<T>{}, sum, sum + splat<T>(a[k * stride + r]) * right);
      }
      T* to = c + r * ldc + v * kLanes<T>;
      if (into == Into::scale) sum = load(to) * load(factor + v * kLanes<T>) + sum;
      if (into == Into::add) sum = load(to) + sum;
      store(to, sum);
    }
  }
}

template <class T> void columns_from_rows(T* to, Index width, const T* const* from, Index lanes, Index count, Index n) {
  constexpr Index w = kLanes<T>;
  Vec<T> v[w];
  for (Index lane = 0; lane < lanes; lane += w) {
    Index j = 0;
    if (lane + w <= count) {
      for (; j + w <= n; j += w) {
        load_transposed<T>(v, from + lane, j);
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) store(to + (j + i) * width + lane, v[i]);
      }
    }
    for (; j < n; j += w) {
      for (Index i = 0; i < w; ++i) v[i] = lane + i < count ? load_first(from[lane + i] + j, n - j) : Vec<T>{};
      transpose<T>(v);
      for (Index i = 0; i < w && j + i < n; ++i) store(to + (j + i) * width + lane, v[i]);
    }
  }
}

template <class T> void columns_from_far_rows(T* to, Index width, const T* const* from, Index n) {
  constexpr Index w = kLanes<T>;
  Vec<T> v[w];
  Index j = 0;
  for (; j + w <= n; j += w) {
#pragma GCC unroll 16
    for (Index i = 0; i < w; ++i) v[i] = load(from[i] + j);
    transpose<T>(v);
#pragma GCC unroll 16
    for (Index i = 0; i < w; ++i) store(to + (j + i) * width, v[i]);
  }
  if (j == n) return;
  const T* rest[w];
  for (Index i = 0; i < w; ++i) rest[i] = from[i] + j;
  columns_from_rows(to + j * width, width, rest, w, w, n - j);
}

template <class T> void RowsBehind<T>::some(Index patches) {
  constexpr Index w = kLanes<T>;
  while (written_ < ready_) write_line();
  written_ = ready_ = 0;
  for (; patches > 0 && lane_ < count; --patches) {
    // Copies, because the compiler must assume that the stores change members.
    const Index j = j_, step = width, at = ready_;
    const T* columns = from + j * step + lane_;
    T* const* rows = to + lane_;
    Vec<T> v[w];
    const Vec<T> scale = load(factor + lane_);
    const bool whole = j + w <= n && lane_ + w <= count;
    if (whole) {
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) v[i] = load(columns + i * step) * scale;
    } else {
      for (Index i = 0; i < w; ++i) v[i] = j + i < n ? load(columns + i * step) * scale : Vec<T>{};
    }
    transpose<T>(v);
    if (!whole) {
      for (Index i = 0; i < w && lane_ + i < count; ++i) store_first(rows[i] + j, v[i], n - j);
    } else if (past_caches && at + w <= kMostReady) {
      T* line = line_ + at * w;
      T** target = target_ + at;
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) store(line + i * w, v[i]);
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) target[i] = rows[i] + j;
      ready_ = at + w;
    } else {
#pragma GCC unroll 16
      for (Index i = 0; i < w; ++i) store(rows[i] + j, v[i]);
    }
    j_ = j + w;
    if (j_ >= n) {
      j_ = 0;
      lane_ += w;
    }
  }
}

template <class T> void RowsBehind<T>::finish() {
  while (lane_ < count) some(kMostReady / kLanes<T>);
  while (written_ < ready_) write_line();
}

template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n) {
  RowsBehind<T> all;
  all.to = to;
  all.from = from;
  all.width = width;
  all.factor = factor;
  all.count = count;
  all.n = n;
  all.finish();
}

#define QKV_INSTANTIATE(T)                                                                                           \
  template struct RowsBehind<T>;                                                                                     \
  template void product(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index,            \
                        LinesAhead*);                                                                                \
  template void product_transposed(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index, \
                                   RowsBehind<T>*);                                                                  \
  template void product_skipping(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index,   \
                                 RowsBehind<T>*);                                                                    \
  template void columns_from_rows(T*, Index, const T* const*, Index, Index, Index);                                  \
  template void columns_from_far_rows(T*, Index, const T* const*, Index);                                            \
  template void rows_from_columns(T* const*, const T*, Index, const T*, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
