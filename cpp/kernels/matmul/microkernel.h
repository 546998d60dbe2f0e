// The register tile of matrix products: R x V vectors of sums stay in registers over the whole depth; each step loads V
// vectors of b and broadcasts R numbers of a.
#pragma once

#include "kernels/simd/fused.h"

namespace qkv::kernels::QKV_ISA {

// Rows of a tile of V vectors. With 32 registers the sums of 6 rows x 4 vectors (or 8 x 3, 12 x 2, 12 x 1) stay in
// them, with 16 registers those of 6 x 2 (or 8 x 1).
constexpr Index kMaxVectors = kRegisters / 8;
constexpr Index tile_height(Index vectors) {
  constexpr Index many[] = {0, 12, 12, 8, 6}, few[] = {0, 8, 6};
  return kRegisters == 32 ? many[vectors] : few[vectors];
}

// Columns of a panel: the widest tile's.
template <class T> constexpr Index kPanelWidth = kMaxVectors * kLanes<T>;
// With few registers panels always lie kPanelWidth apart, which the tiles know when they are compiled: a product with a
// distance that is known at run time takes a tenth more instructions. With many registers narrow panels are packed
// closer.
constexpr bool kFixedWidth = kMaxVectors == 2;

// How number k of row r of a is read: a[r * stride + k] or a[k * stride + r]; `stairs` is columns, where the first
// vectors of b end before the last.
enum class Reads { rows, columns, stairs };

// What becomes of c.
enum class StoreMode {
  overwrite,   // c = product
  accumulate,  // c = c + product
  rescale,     // c = c * factor[column] + product
  resume       // c = the same sum, continued: c + first + second ...
};

// c (rows, V * kLanes; ldc) = a (rows, depth) @ b (depth, V * kLanes; ldb). The depth may come in groups: group g of a
// is read from a + g * a_jump, that of b from b + g * b_jump.
template <class T> struct TileProduct {
  StoreMode mode = StoreMode::overwrite;
  T* c = nullptr;
  Index ldc = 0;
  const T* factor = nullptr;  // of rescale
  const T* a = nullptr;
  Index stride = 0;
  const T* b = nullptr;
  Index ldb = 0;
  Index depth = 0;
  const Index* depths = nullptr;  // of stairs: that of each vector, ascending
  Index groups = 1, a_jump = 0, b_jump = 0;
};

// Nothing is done between the steps of a tile.
constexpr struct Nothing {
  void operator()() const {}
} nothing;

// Keeps the compiler from deriving this pointer from another, which costs an addition per step and row of the tile.
template <class T> inline void keep_apart(const T*& p) { asm("" : "+r"(p)); }

// sum += a * b. Written as an instruction where there is one: with a product and a sum that the compiler joins it plans
// its registers worse, and two of the twelve sums of an AVX2 tile go through memory at each step (a third of the time).
template <class T> inline __attribute__((always_inline)) void multiply_add(Vec<T>& sum, Vec<T> a, Vec<T> b) {
#if defined(__FMA__)
  if constexpr (sizeof(T) == sizeof(float)) asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  else asm("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  sum = fused(a, b, sum);
#endif
}

// Vector v of a line of b.
template <class T> struct WholeVectors {
  Vec<T> operator()(const T* line, int v) const { return load(line + v * kLanes<T>); }
};

// One step: the rows of a at row_of(r), those of b at b; the vectors from First on.
template <class T, int R, int V, int First, class RowOf, class VectorOf>
inline __attribute__((always_inline)) void multiply_step(Vec<T> (&sum)[R][V], const T* b, RowOf&& row_of,
                                                         const VectorOf& vector_of) {
  Vec<T> right[V];
#pragma GCC unroll 8
  for (int v = First; v < V; ++v) right[v] = vector_of(b, v);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const Vec<T> left = splat<T>(*row_of(r));
#pragma GCC unroll 8
    for (int v = First; v < V; ++v) multiply_add<T>(sum[r][v], left, right[v]);
  }
}

// sum += a @ b over `depth` steps. An address reaches three rows (0, 1 and 2 strides from a pointer), so one pointer
// serves three rows of a, or two lines of columns.
template <class T, int R, int V, Reads A, int First = 0, class Interleaved, class VectorOf = WholeVectors<T>>
inline __attribute__((always_inline)) void multiply_group(Vec<T> (&sum)[R][V], const T* a, Index stride, const T* b,
                                                          Index ldb, Index depth, Interleaved& interleaved,
                                                          const VectorOf& vector_of = {}) {
  Index k = depth >> 2;
  if constexpr (A == Reads::rows) {
    constexpr int P = (R + 2) / 3;
    const T* at[P];
#pragma GCC unroll 4
    for (int i = 0; i < P; ++i) {
      at[i] = a + 3 * i * stride;
      if (i > 0) keep_apart(at[i]);
    }
    for (; k > 0; --k) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) {
        multiply_step<T, R, V, First>(
            sum, b + u * ldb, [&](int r) { return at[r / 3] + r % 3 * stride + u; }, vector_of);
        if (u % 2 == 1) interleaved();
      }
      b += 4 * ldb;
#pragma GCC unroll 4
      for (int i = 0; i < P; ++i) {
        at[i] += 4;
        if (i > 0) keep_apart(at[i]);
      }
    }
    for (k = depth & 3; k > 0; --k, b += ldb) {
      multiply_step<T, R, V, First>(sum, b, [&](int r) { return at[r / 3] + r % 3 * stride; }, vector_of);
#pragma GCC unroll 4
      for (int i = 0; i < P; ++i) ++at[i];
    }
  } else {
    const T* half = a + 2 * stride;
    keep_apart(half);
    for (; k > 0; --k) {
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) {
        const T* line = u < 2 ? a + u * stride : half + (u - 2) * stride;
        multiply_step<T, R, V, First>(sum, b + u * ldb, [&](int r) { return line + r; }, vector_of);
        if (u % 2 == 1) interleaved();
      }
      a += 4 * stride;
      half += 4 * stride;
      keep_apart(half);
      b += 4 * ldb;
    }
    for (k = depth & 3; k > 0; --k, a += stride, b += ldb)
      multiply_step<T, R, V, First>(sum, b, [&](int r) { return a + r; }, vector_of);
  }
}

// sum += a @ b of stairs, whose vectors from First on have numbers of the depth from `from` on.
template <class T, int R, int V, int First = 0, class Interleaved>
inline __attribute__((always_inline)) void multiply_stairs(Vec<T> (&sum)[R][V], const TileProduct<T>& p, Index ldb,
                                                           Index from, Interleaved& interleaved) {
  multiply_group<T, R, V, Reads::columns, First>(sum, p.a + from * p.stride, p.stride, p.b + from * ldb, ldb,
                                                 p.depths[First] - from, interleaved);
  if constexpr (First + 1 < V) multiply_stairs<T, R, V, First + 1>(sum, p, ldb, p.depths[First], interleaved);
}

// The whole tile. Fixed: ldb is kPanelWidth.
template <class T, int R, int V, Reads A, bool Fixed, class Interleaved>
void multiply_tile(const TileProduct<T>& p, Interleaved& interleaved) {
  Vec<T> sum[R][V] = {};
  if (p.mode == StoreMode::resume) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = load(p.c + r * p.ldc + v * kLanes<T>);
  }
  const Index ldb = Fixed ? kPanelWidth<T> : p.ldb;
  const T *a = p.a, *b = p.b;
  if constexpr (A == Reads::stairs) {
    multiply_stairs<T, R, V>(sum, p, ldb, 0, interleaved);
  } else if constexpr (Fixed) {
    multiply_group<T, R, V, A>(sum, a, p.stride, b, ldb, p.depth, interleaved);
  } else {
    for (Index group = p.groups; group > 0; --group, a += p.a_jump, b += p.b_jump)
      multiply_group<T, R, V, A>(sum, a, p.stride, b, ldb, p.depth, interleaved);
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    T* to = p.c + v * kLanes<T>;
    if (p.mode == StoreMode::overwrite || p.mode == StoreMode::resume) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) store(to + r * p.ldc, sum[r][v]);
    } else {
      const Vec<T> keep = p.mode == StoreMode::rescale ? load(p.factor + v * kLanes<T>) : splat<T>(1);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) store(to + r * p.ldc, fused(load(to + r * p.ldc), keep, sum[r][v]));
    }
  }
}

template <class T, class Interleaved> using TileFunction = void (*)(const TileProduct<T>&, Interleaved&);

// The tile of `rows` rows and V vectors.
template <class T, int V, Reads A, bool Fixed, class Interleaved> TileFunction<T, Interleaved> tile_of(Index rows) {
  static_assert(tile_height(V) <= 12);
#define QKV_TILE(R) \
  multiply_tile<T, (R < tile_height(V) ? R : static_cast<int>(tile_height(V))), V, A, Fixed, Interleaved>
  static constexpr TileFunction<T, Interleaved> all[12] = {QKV_TILE(1), QKV_TILE(2),  QKV_TILE(3),  QKV_TILE(4),
                                                           QKV_TILE(5), QKV_TILE(6),  QKV_TILE(7),  QKV_TILE(8),
                                                           QKV_TILE(9), QKV_TILE(10), QKV_TILE(11), QKV_TILE(12)};
#undef QKV_TILE
  return all[rows - 1];
}

template <class T, Reads A, bool Fixed, class Interleaved>
TileFunction<T, Interleaved> tile_for(Index rows, Index vectors) {
  if (vectors == 1) return tile_of<T, 1, A, Fixed, Interleaved>(rows);
  if constexpr (kMaxVectors == 4) {
    if (vectors == 2) return tile_of<T, 2, A, Fixed, Interleaved>(rows);
    if (vectors == 3) return tile_of<T, 3, A, Fixed, Interleaved>(rows);
  }
  return tile_of<T, kMaxVectors, A, Fixed, Interleaved>(rows);
}

inline Index tiles_of(Index rows, Index vectors) { return (rows + tile_height(vectors) - 1) / tile_height(vectors); }

// A product of any number of rows, in tiles of nearly equal height: 64 rows by at most 6 are 9 tiles of 6 and 2 of 5.
// before(a's row that the tile after this one begins with) is called before each tile.
template <Reads A, bool Fixed, class T, class Before, class Interleaved>
inline void multiply_rows(TileProduct<T> p, Index rows, Index vectors, Before&& before, Interleaved& interleaved) {
  if (rows == 0) return;
  const Index tiles = tiles_of(rows, vectors), height = rows / tiles, higher = rows % tiles;
  const auto run = [&](Index count, Index h) {
    if (count == 0) return;
    const TileFunction<T, Interleaved> tile = tile_for<T, A, Fixed, Interleaved>(h, vectors);
    for (; count > 0; --count) {
      const T* next = p.a + (A == Reads::rows ? h * p.stride : h);
      before(next);
      tile(p, interleaved);
      p.c += h * p.ldc;
      p.a = next;
    }
  };
  run(higher, height + 1);
  run(tiles - higher, height);
}

}  // namespace qkv::kernels::QKV_ISA
