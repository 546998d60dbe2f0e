#include "kernels/attention_tiles.h"

#include "kernels/simd_transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Tile R x V vectors: R * V accumulators stay in registers over the whole depth; each step loads V vectors of b and
// broadcasts R numbers of a.
template <class T, int R, int V, bool Transposed>
void tile(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb, Index depth) {
  Vec<T> sum[R][V] = {};
  for (Index k = 0; k < depth; ++k) {
    // The rows of a that a step reads lie apart, and the next tile of the same rows needs the same lines.
    if constexpr (Transposed) __builtin_prefetch(a + (k + 8) * stride);
    Vec<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(b + k * ldb + v * kLanes<T>);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat<T>(Transposed ? a[k * stride + r] : a[r * stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] += left * right[v];
    }
  }
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

template <class T>
using Tile = void (*)(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index depth);

// The tile of R rows, or the highest there is for V vectors.
template <class T, int R, int V, bool Transposed>
constexpr Tile<T> kTile = tile<T, (R < kTileRows[V] ? R : static_cast<int>(kTileRows[V])), V, Transposed>;

template <class T, int V, bool Transposed> Tile<T> tile_of(Index rows) {
  static_assert(kTileRows[V] <= 12);
  static constexpr Tile<T> all[13] = {nullptr,
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

template <class T, bool Transposed> Tile<T> tile_for(Index rows, Index vectors) {
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
              Index depth, Index vectors, LinesAhead* ahead) {
  if (rows == 0) return;
  const Index most = kTileRows[vectors], tiles = (rows + most - 1) / most;
  const Index height = rows / tiles, higher = rows % tiles;
  const Index fetches = ahead != nullptr ? (ahead->rows * ahead->lines + tiles - 1) / tiles : 0;
  Index row = 0;
  const auto run = [&](Index count, Index h) {
    const Tile<T> f = tile_for<T, Transposed>(h, vectors);
    for (Index i = 0; i < count; ++i, row += h) {
      if (fetches > 0) ahead->fetch(fetches);
      f(into, c + row * ldc, ldc, factor, a + (Transposed ? row : row * stride), stride, b, ldb, depth);
    }
  };
  if (higher > 0) run(higher, height + 1);
  run(tiles - higher, height);
}

template <class T> inline void store_first(T* p, Vec<T> v, Index n) {
  if (n >= kLanes<T>)
    store(p, v);
  else
    store_part(p, v, n);
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
                        Index rows, Index depth, Index vectors) {
  in_tiles<T, true>(into, c, ldc, factor, a, stride, b, ldb, rows, depth, vectors, nullptr);
}

template <class T>
void product_skipping(Into into, T* c, Index ldc, const T* factor, const T* a, Index stride, const T* b, Index ldb,
                      Index rows, Index depth, Index vectors) {
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

template <class T>
void rows_from_columns(T* const* to, const T* from, Index width, const T* factor, Index count, Index n) {
  constexpr Index w = kLanes<T>;
  Vec<T> v[w];
  for (Index lane = 0; lane < count; lane += w) {
    const Vec<T> scale = load(factor + lane);
    Index j = 0;
    if (lane + w <= count) {
      for (; j + w <= n; j += w) {
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) v[i] = load(from + (j + i) * width + lane) * scale;
        transpose<T>(v);
#pragma GCC unroll 16
        for (Index i = 0; i < w; ++i) store(to[lane + i] + j, v[i]);
      }
    }
    for (; j < n; j += w) {
      for (Index i = 0; i < w; ++i) v[i] = j + i < n ? load(from + (j + i) * width + lane) * scale : Vec<T>{};
      transpose<T>(v);
      for (Index i = 0; i < w && lane + i < count; ++i) store_first(to[lane + i] + j, v[i], n - j);
    }
  }
}

#define QKV_INSTANTIATE(T)                                                                                            \
  template void product(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index,             \
                        LinesAhead*);                                                                                 \
  template void product_transposed(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index); \
  template void product_skipping(Into, T*, Index, const T*, const T*, Index, const T*, Index, Index, Index, Index);   \
  template void columns_from_rows(T*, Index, const T* const*, Index, Index, Index);                                   \
  template void rows_from_columns(T* const*, const T*, Index, const T*, Index, Index);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)

}  // namespace qkv::kernels::QKV_ISA
