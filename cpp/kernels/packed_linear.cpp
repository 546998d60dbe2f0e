#include "kernels/packed_linear.h"

#include <string.h>

#include "kernels/simd.h"

namespace qkv::kernels::QKV_ISA {

template <class T> Activations<T> activation_kernels();

namespace {

// A tile's sums stay in registers: 24 of 32 or 12 of 16, beside the panel's vectors.
#if defined(__AVX512F__)
constexpr int kTileRows = 12;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kVectors = 2;
template <class T> constexpr Index kPanel = kVectors * kLanes<T>;
// Inputs that are summed in registers before the sum meets y: a panel's share of 64 kB and the rows' of 24 kB stay in
// the second-level cache.
constexpr Index kDepth = 512;
// Rows that meet one panel before the next: with the panel's share they fill a quarter of a megabyte.
constexpr Index kBlockTiles = 8;

template <class T> void pack(T* packed, const T* weight, Index out, Index in) {
  for (Index first = 0; first < out; first += kPanel<T>) {
    const Index columns = out - first < kPanel<T> ? out - first : kPanel<T>;
    // Eight inputs at a time: whole lines are read, and what is written stays near.
    for (Index k = 0; k < in; k += 8) {
      const Index steps = in - k < 8 ? in - k : 8;
      for (Index j = 0; j < kPanel<T>; ++j)
        for (Index s = 0; s < steps; ++s)
          packed[(k + s) * kPanel<T> + j] = j < columns ? weight[(first + j) * in + k + s] : T(0);
    }
    packed += in * kPanel<T>;
  }
}

// y (R, kPanel) = x (R, depth) @ panel (depth, kPanel), added to what stands there if `add`; `columns` of y exist.
template <class T, int R>
void tile(T* y, Index ldy, const T* x, Index ldx, const T* panel, Index depth, Index columns, bool add, const T* bias) {
  constexpr Index L = kLanes<T>;
  Vec<T> sum[R][kVectors] = {};
  for (Index k = 0; k < depth; ++k, panel += kPanel<T>) {
    __builtin_prefetch(panel + 8 * kPanel<T>);
    __builtin_prefetch(panel + 8 * kPanel<T> + L);
    Vec<T> right[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) right[v] = load(panel + v * L);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Vec<T> left = splat<T>(x[r * ldx + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const Index left = columns - v * L;
    if (left <= 0) break;
    const bool whole = left >= L;
    const Vec<T> shift = bias == nullptr ? Vec<T>{} : whole ? load(bias + v * L) : load_part(bias + v * L, left);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      T* to = y + r * ldy + v * L;
      Vec<T> value = sum[r][v];
      if (add) value += whole ? load(to) : load_part(to, left);
      value += shift;
      if (whole) store(to, value);
      else store_part(to, value, left);
    }
  }
}

template <class T>
using Tile = void (*)(T* y, Index ldy, const T* x, Index ldx, const T* panel, Index depth, Index columns, bool add, const T* bias);

template <class T> Tile<T> tile_of(Index rows) {
#if defined(__AVX512F__)
  static constexpr Tile<T> all[] = {tile<T, 1>, tile<T, 2>, tile<T, 3>, tile<T, 4>,  tile<T, 5>,  tile<T, 6>,
                                    tile<T, 7>, tile<T, 8>, tile<T, 9>, tile<T, 10>, tile<T, 11>, tile<T, 12>};
#else
  static constexpr Tile<T> all[] = {tile<T, 1>, tile<T, 2>, tile<T, 3>, tile<T, 4>, tile<T, 5>, tile<T, 6>};
#endif
  return all[rows - 1];
}

// Rows that lie a multiple of a page apart share the few places of the first-level cache that fit them: such a tile is
// read from a copy with another distance.
template <class T> bool rows_collide(Index in) { return in * static_cast<Index>(sizeof(T)) % 2048 == 0; }

template <class T>
void multiply(T* y, const T* x, const T* packed, const Finish<T>& finish, T* scratch, Index rows, Index out, Index in,
              Index first, Index last) {
  const Activations<T> activation = activation_kernels<T>();
  // Tiles of nearly equal height.
  const Index tiles = (rows + kTileRows - 1) / kTileRows;
  const auto row_of = [&](Index t) { return rows * t / tiles; };
  const bool collide = rows_collide<T>(in) && rows > 4 && last - first > 2;
  constexpr Index kPad = 64 / static_cast<Index>(sizeof(T));
  for (Index block = 0; block < tiles; block += kBlockTiles) {
    const Index end = block + kBlockTiles < tiles ? block + kBlockTiles : tiles;
    for (Index k = 0; k < in || k == 0; k += kDepth) {
      const Index depth = in - k < kDepth ? in - k : kDepth;
      const bool done = k + depth >= in;
      const T* from = x + k;
      Index stride = in;
      if (collide) {
        stride = depth + kPad;
        for (Index r = row_of(block); r < row_of(end); ++r)
          memcpy(scratch + (r - row_of(block)) * stride, x + r * in + k, static_cast<size_t>(depth) * sizeof(T));
        from = scratch - row_of(block) * stride;
      }
      for (Index p = first; p < last; ++p) {
        const Index column = p * kPanel<T>, columns = out - column < kPanel<T> ? out - column : kPanel<T>;
        const T* bias = done && finish.bias != nullptr ? finish.bias + column : nullptr;
        for (Index t = block; t < end; ++t) {
          const Index row = row_of(t), height = row_of(t + 1) - row;
          T* to = y + row * out + column;
          tile_of<T>(height)(to, out, from + row * stride, stride, packed + (p * in + k) * kPanel<T>, depth, columns, k > 0, bias);
          if (done && finish.activates)
            for (Index r = 0; r < height; ++r) activation.forward(finish.activation, to + r * out, to + r * out, columns);
        }
      }
    }
  }
}

}  // namespace

template <class T> PackedLinear<T> packed_linear_kernels() {
  return {kPanel<T>, kTileRows, kBlockTiles * kTileRows * (kDepth + 64 / static_cast<Index>(sizeof(T))), pack<T>, multiply<T>};
}

template PackedLinear<float> packed_linear_kernels<float>();
template PackedLinear<double> packed_linear_kernels<double>();

}  // namespace qkv::kernels::QKV_ISA
