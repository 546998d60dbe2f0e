#include "kernels/matmul/packed_product.h"

#include <string.h>

#include "kernels/matmul/packed_panels.h"
#include "kernels/simd/family.h"
#include "kernels/simd/transpose.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Rows that meet one panel before the next, in tiles.
constexpr Index kBlockTiles = 32;
// A step of the panel in cache lines.
template <class T> constexpr Index kLine = kPanelWidth<T> * sizeof(T) < 64 ? kPanelWidth<T> : 64 / sizeof(T);
template <class T> constexpr Index kLines = kPanelWidth<T> / kLine<T>;
// While tiles work on one part of a panel, they prefetch the next part from memory into the second-level cache. Few
// rows meet short parts (12 or 16 KB), so that little is fetched too late and all that is fetched stays until it is
// needed: a model of 42 MB went from 9.2 to 7.8 ms for 32 rows, from 5.1 to 4.6 for 8.
constexpr Index kFewTiles = 8;
template <class T> constexpr Index kPart = kLines<T> == 1 ? 192 : 64;

// Lines of the operand become lines of the panels. Eight at a time: whole stretches are read and written.
template <class T> void pack_lines(T* packed, const Operand<T>& operand, Index columns, Index depth) {
  for (Index k = 0; k < depth; k += 8) {
    const Index end = k + 8 < depth ? k + 8 : depth;
    for (Index first = 0; first < columns; first += kPanelWidth<T>)
      for (Index i = k; i < end; ++i)
        for (Index j = 0; j < kPanelWidth<T>; j += kLanes<T>)
          store(packed + first * depth + i * kPanelWidth<T> + j,
                load_some(operand.at(first + j, i), columns - first - j));
  }
}

template <class T> void pack(T* packed, const Operand<T>& operand, Index columns, Index depth) {
  constexpr Index L = kLanes<T>;
  if (operand.transposed) return pack_lines(packed, operand, columns, depth);
  for (Index first = 0; first < columns; first += kPanelWidth<T>, packed += depth * kPanelWidth<T>)
    for (Index k = 0; k < depth; k += L)
      for (Index j = 0; j < kPanelWidth<T>; j += L) {
        Vec<T> v[L];
#pragma GCC unroll 16
        for (Index i = 0; i < L; ++i)
          v[i] = first + j + i < columns ? load_some(operand.at(first + j + i, k), depth - k) : Vec<T>{};
        transpose<T>(v);
        for (Index i = 0; i < L && k + i < depth; ++i) store(packed + (k + i) * kPanelWidth<T> + j, v[i]);
      }
}

// What a tile prefetches: so many cache lines at each second step. Few at a time, because a CPU has room for some 16
// lines on their way: with all of them before the tile, AVX-512 took 1.7 times as long (8 rows, weights in memory).
template <class T> struct Fetch {
  const T* from = nullptr;
  Index lines = 0;
  void operator()() {
    for (Index i = 0; i < lines; ++i, from += kLine<T>) __builtin_prefetch(from, 0, 2);
  }
};

// How a sum meets what is in y: it replaces it, continues it, or is added to it in the end.
enum class Sum { fresh, continued, added };

// y (R, V vectors) = x (R, depth) @ panel; `columns` of y exist.
template <class T, int R, int V, Reads X>
void tile(T* y, Index ldy, const T* x, Index ldx, const T* panel, Index depth, Index columns, Sum kind, const T* bias,
          Fetch<T> fetch) {
  constexpr Index L = kLanes<T>;
  Vec<T> sum[R][V];
  const bool whole = columns >= V * L;
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      T* to = y + r * ldy + v * L;
      if (kind == Sum::continued) {
        sum[r][v] = whole ? load(to) : load_some(to, columns - v * L);
      } else {
        sum[r][v] = Vec<T>{};
        __builtin_prefetch(to, 1);  // it arrives while the tile works: 128 GFLOP/s instead of 115 for 2048 x 384 x 1536
      }
    }
  multiply_group<T, R, V, X>(sum, x, ldx, panel, kPanelWidth<T>, depth, fetch);
  store_tile<T, R, V>(y, ldy, sum, columns, kind == Sum::added, bias);
}

template <class T>
using Tile = void (*)(T* y, Index ldy, const T* x, Index ldx, const T* panel, Index depth, Index columns, Sum kind,
                      const T* bias, Fetch<T> fetch);

template <class T, int V, Reads X>
constexpr Tile<T> kTiles[kTileRows] = {tile<T, 1, V, X>, tile<T, 2, V, X>, tile<T, 3, V, X>,
                                       tile<T, 4, V, X>, tile<T, 5, V, X>, tile<T, 6, V, X>};

template <class T, Reads X>
void run_tile(T* y, Index ldy, const T* x, Index ldx, const T* panel, Index depth, Index rows, Index columns, Sum kind,
              const T* bias, Fetch<T> fetch) {
  constexpr Index L = kLanes<T>;
  const Index vectors = (columns + L - 1) / L;
  if constexpr (kMaxVectors == 4) {  // the last panel, or the only one of a small product
    if (vectors == 3) return kTiles<T, 3, X>[rows - 1](y, ldy, x, ldx, panel, depth, columns, kind, bias, fetch);
    if (vectors == 2) return kTiles<T, 2, X>[rows - 1](y, ldy, x, ldx, panel, depth, columns, kind, bias, fetch);
  }
  if (columns > kPanelWidth<T> / 2)
    return kTiles<T, kMaxVectors, X>[rows - 1](y, ldy, x, ldx, panel, depth, columns, kind, bias, fetch);
  for (Index j = 0; j < columns; j += L)  // the last panel of a narrow matrix
    kTiles<T, 1, X>[rows - 1](y + j, ldy, x, ldx, panel + j, depth, columns - j, kind,
                              bias == nullptr ? bias : bias + j, fetch);
}

// Steps [0, depth) of a transposed operand, whose lines may lie anywhere, side by side.
template <class T> Operand<T> gathered(T* scratch, const Operand<T>& x, Index rows, Index depth) {
  const Index stride = (rows + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  for (Index k = 0; k < depth; ++k)
    for (Index r = 0; r < rows; r += kLanes<T>) store(scratch + k * stride + r, load_some(x.at(r, k), rows - r));
  return {scratch, stride, true};
}

// y (height, width), or what is added to it, from steps [k, k + steps), whose rows are in x and whose panel is given
// from the first of them on; what is needed next starts at `next`, if anything is.
template <class T>
void multiply_panel(T* y, Index ldy, const Operand<T>& x, const T* panel, const T* next, Index rows, Index width,
                    Index steps, bool add, const T* bias) {
  const Index tiles = (rows + kTileRows - 1) / kTileRows, share = (2 * kLines<T> + tiles - 1) / tiles;
  const Index part = tiles <= kFewTiles && !x.transposed && !add ? kPart<T> : kDepth;
  const auto run = x.transposed ? run_tile<T, Reads::columns> : run_tile<T, Reads::rows>;
  for (Index k = 0; k < steps || k == 0; k += part) {
    const Index n = steps - k < part ? steps - k : part;
    const T* shift = k + n >= steps ? bias : nullptr;
    const Sum kind = k > 0 ? Sum::continued : add ? Sum::added : Sum::fresh;
    const T* ahead = k + n < steps ? panel + (k + n) * kPanelWidth<T> : next;
    const bool fetches = ahead != nullptr && rows > 2;  // for one or two the CPU fetches as fast by itself
    for (Index t = 0; t < tiles; ++t) {
      const Index row = rows * t / tiles, height = rows * (t + 1) / tiles - row;  // tiles of nearly equal height
      Fetch<T> fetch;
      if (fetches && t * share < 2 * kLines<T>) fetch = {ahead + t * share * (n / 2) * kLine<T>, share};
      run(y + row * ldy, ldy, x.at(row, k), x.stride, panel + k * kPanelWidth<T>, n, height, width, kind, shift, fetch);
    }
  }
}

template <class T>
void multiply(T* y, Index ldy, const Operand<T>& x, const T* packed, const Epilogue<T>& epilogue, T* scratch,
              Index rows, Index columns, Index depth, Index first, Index last, const void* afterwards) {
  for (Index top = 0; top < rows; top += kBlockTiles * kTileRows) {
    const Index height = rows - top < kBlockTiles * kTileRows ? rows - top : kBlockTiles * kTileRows;
    for (Index k = 0; k < depth || k == 0; k += kDepth) {
      const Index steps = depth - k < kDepth ? depth - k : kDepth;
      const bool done = k + steps >= depth;
      Operand<T> from{x.at(top, k), x.stride, x.transposed};
      if (x.transposed) from = gathered(scratch, from, height, steps);
      for (Index p = first; p < last; ++p) {
        const Index column = p * kPanelWidth<T>,
                    width = columns - column < kPanelWidth<T> ? columns - column : kPanelWidth<T>;
        T* to = y + top * ldy + column;
        const T* panel = packed + (p * depth + k) * kPanelWidth<T>;
        const T* next = static_cast<const T*>(afterwards);
        if (p + 1 < last) next = panel + depth * kPanelWidth<T>;
        else if (!done) next = packed + (first * depth + k + steps) * kPanelWidth<T>;
        multiply_panel(to, ldy, from, panel, next, height, width, steps, k > 0 || epilogue.adds,
                       done && epilogue.bias != nullptr ? epilogue.bias + column : nullptr);
        if (done) activate_rows(epilogue, to, ldy, height, width);
      }
    }
  }
}

}  // namespace

QKV_FAMILY(PackedProduct, kPanelWidth<T>, kTileRows, kBlockTiles* kTileRows, kBlockTiles * kTileRows * kDepth, pack<T>,
           multiply<T>)

}  // namespace qkv::kernels::QKV_ISA
