#include "kernels/matmul/packed_bfloat16.h"

#include <string.h>

#include "kernels/matmul/packed_panels.h"

namespace qkv::kernels::QKV_ISA {

namespace {

using V = Vec<float>;
using Words = Mask<float>;  // 32-bit integers

constexpr Index L = kLanes<float>, kWidth = kPanelWidth<float>;

// The nearest bfloat16 in the upper half of each word, zeros below. NaN becomes quiet, so that it cannot round to
// infinity.
inline Words rounded(V x) {
  const Words w = bits(x);
  const Words up = (w + 0x7fff + ((w >> 16) & 1)) & static_cast<int32_t>(0xffff0000);
  return bits(select(x != x, from_bits(Words{} + 0x7fc00000), from_bits(up)));
}

inline uint32_t rounded(float x) {
  uint32_t w;
  memcpy(&w, &x, sizeof w);
  return x != x ? 0x7fc0u : (w + 0x7fff + ((w >> 16) & 1)) >> 16;
}

void round(float* y, const float* x, Index n) {
  for (Index i = 0; i < n; i += L) {
    const Index left = n - i;
    const V v = from_bits(rounded(left >= L ? load(x + i) : load_part(x + i, left)));
    if (left >= L) store(y + i, v);
    else store_part(y + i, v, left);
  }
}

void pack(uint32_t* packed, const Operand<float>& operand, Index columns, Index depth) {
  for (Index first = 0; first < columns; first += kWidth, packed += (depth + 1) / 2 * kWidth)
    for (Index j = 0; j < kWidth; ++j)
      for (Index k = 0; k < depth; k += 2) {
        const bool there = first + j < columns;
        const uint32_t low = there ? rounded(*operand.at(first + j, k)) : 0;
        const uint32_t high = there && k + 1 < depth ? rounded(*operand.at(first + j, k + 1)) : 0;
        packed[k / 2 * kWidth + j] = low | high << 16;
      }
}

inline Words load_words(const uint32_t* p) {
  Words w;
  __builtin_memcpy(&w, p, sizeof w);
  return w;
}

// What a step of two reads of the rows, and how it is multiplied. With the CPU's products the rows are bfloat16 as well
// and one instruction takes both steps; otherwise a word is widened and each step is a product of its own.
#if defined(__AVX512BF16__)
constexpr bool kNative = true;
constexpr int kHalves = 1;
using Left = uint32_t;
inline Words right_of(Words w, int) { return w; }
inline Words left_of(const uint32_t* row, Index pair, int) { return static_cast<int32_t>(row[pair]) - Words{}; }
inline V add_products(V sum, Words left, Words right) {
  return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)left, (__m512bh)right);
}
#else
constexpr bool kNative = false;
constexpr int kHalves = 2;
using Left = float;
inline V low_half(Words w) { return from_bits(w << 16); }
inline V high_half(Words w) { return from_bits(w & static_cast<int32_t>(0xffff0000)); }
inline V right_of(Words w, int half) { return half == 0 ? low_half(w) : high_half(w); }
inline V left_of(const float* row, Index pair, int half) { return splat<float>(row[2 * pair + half]); }
inline V add_products(V sum, V left, V right) { return fused(left, right, sum); }
#endif

// y (R, kWidth) = x (R, 2 * pairs) @ panel + bias, added to what is in y if `add`; rows of x are `stride` elements
// apart; `columns` of y exist.
template <int R>
void tile(float* y, Index ldy, const Left* x, Index stride, const uint32_t* panel, Index pairs, Index columns, bool add,
          const float* bias) {
  V sum[R][kMaxVectors] = {};
  for (Index i = 0; i < pairs; ++i, panel += kWidth) {
#pragma GCC unroll 4
    for (int v = 0; v < kMaxVectors; ++v) __builtin_prefetch(panel + 16 * kWidth + v * L);
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
      decltype(right_of(Words{}, 0)) right[kMaxVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kMaxVectors; ++v) right[v] = right_of(load_words(panel + v * L), half);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const auto left = left_of(x + r * stride, i, half);
#pragma GCC unroll 4
        for (int v = 0; v < kMaxVectors; ++v) sum[r][v] = add_products(sum[r][v], left, right[v]);
      }
    }
  }
  store_tile<float, R, kMaxVectors>(y, ldy, sum, columns, add, bias);
}

using Tile = void (*)(float*, Index, const Left*, Index, const uint32_t*, Index, Index, bool, const float*);
constexpr Tile kTiles[kTileRows] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>};

// Rows of x as the tiles read them, with an even number of steps; rows `stride` elements apart.
void load_rows(Left* to, Index stride, const Operand<float>& x, Index rows, Index depth) {
  for (Index r = 0; r < rows; ++r) {
    const float* from = x.at(r, 0);
    Left* row = to + r * stride;
#if defined(__AVX512BF16__)
    for (Index k = 0; k < depth; k += L) {  // the row ends in room for whole vectors
      const __m256bh half =
          _mm512_cvtneps_pbh((__m512)(depth - k >= L ? load(from + k) : load_part(from + k, depth - k)));
      __builtin_memcpy(row + k / 2, &half, sizeof half);
    }
#else
    memcpy(row, from, static_cast<size_t>(depth) * sizeof(float));
    if (depth % 2 != 0) row[depth] = 0;
#endif
  }
}

// Rows that are loaded at a time. Without the CPU's products, more rows than this are multiplied as float32: a panel is
// widened once for all of them, which costs less than widening its words for each tile.
constexpr Index kRows = kTileRows * (kNative ? 16 : 4);

constexpr Index row_stride(Index depth) { return kHalves * ((depth + 1) / 2) + 64 / static_cast<Index>(sizeof(Left)); }

void multiply_loaded(float* y, Index ldy, const Operand<float>& x, const uint32_t* packed,
                     const Epilogue<float>& epilogue, float* scratch, Index rows, Index columns, Index depth,
                     Index first, Index last) {
  const Index pairs = (depth + 1) / 2, stride = row_stride(depth);
  Left* lines = reinterpret_cast<Left*>(scratch);
  for (Index top = 0; top < rows; top += kRows) {
    const Index height = rows - top < kRows ? rows - top : kRows, tiles = (height + kTileRows - 1) / kTileRows;
    load_rows(lines, stride, {x.at(top, 0), x.stride, false}, height, depth);
    for (Index p = first; p < last; ++p) {
      const Index column = p * kWidth, width = columns - column < kWidth ? columns - column : kWidth;
      float* to = y + top * ldy + column;
      for (Index t = 0; t < tiles; ++t) {
        const Index row = height * t / tiles, count = height * (t + 1) / tiles - row;
        for (Index k = 0; k < pairs || k == 0; k += kDepth / 2) {  // sums of their own, as those of float32
          const Index n = pairs - k < kDepth / 2 ? pairs - k : kDepth / 2;
          kTiles[count - 1](to + row * ldy, ldy, lines + row * stride + kHalves * k, stride,
                            packed + (p * pairs + k) * kWidth, n, width, k > 0,
                            epilogue.bias == nullptr || k + n < pairs ? nullptr : epilogue.bias + column);
        }
      }
      activate_rows(epilogue, to, ldy, height, width);
    }
  }
}

#if !defined(__AVX512BF16__)
void multiply_widened(float* y, Index ldy, const Operand<float>& x, const uint32_t* packed,
                      const Epilogue<float>& epilogue, float* scratch, Index rows, Index columns, Index depth,
                      Index first, Index last) {
  const PackedProduct<float> product = kernels_of<PackedProduct<float>>();
  const Index pairs = (depth + 1) / 2;
  for (Index p = first; p < last; ++p) {
    const Index column = p * kWidth, width = columns - column < kWidth ? columns - column : kWidth;
    for (Index k = 0; k < depth || k == 0; k += kDepth) {
      const Index steps = depth - k < kDepth ? depth - k : kDepth;
      const uint32_t* panel = packed + (p * pairs + k / 2) * kWidth;
      for (Index i = 0; i < (steps + 1) / 2; ++i)
        for (Index j = 0; j < kWidth; j += L) {
          const Words w = load_words(panel + i * kWidth + j);
          store(scratch + 2 * i * kWidth + j, low_half(w));
          store(scratch + (2 * i + 1) * kWidth + j, high_half(w));
        }
      Epilogue<float> now;
      now.adds = k > 0;
      if (k + steps >= depth) now.bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + column;
      const uint32_t* next = column + width < columns || k + steps < depth ? panel + (steps + 1) / 2 * kWidth : nullptr;
      product.multiply(y + column, ldy, {x.at(0, k), x.stride, false}, scratch, now, nullptr, rows, width, steps, 0, 1,
                       next);
    }
    activate_rows(epilogue, y + column, ldy, rows, width);
  }
}
#endif

void multiply(float* y, Index ldy, const Operand<float>& x, const uint32_t* packed, const Epilogue<float>& epilogue,
              float* scratch, Index rows, Index columns, Index depth, Index first, Index last) {
#if !defined(__AVX512BF16__)
  if (rows > kRows) return multiply_widened(y, ldy, x, packed, epilogue, scratch, rows, columns, depth, first, last);
#endif
  multiply_loaded(y, ldy, x, packed, epilogue, scratch, rows, columns, depth, first, last);
}

Index scratch_of(Index depth) {
  const Index widened = kNative ? 0 : kWidth * kDepth, lines = kRows * row_stride(depth);
  return widened > lines ? widened : lines;
}

}  // namespace

template <> PackedBfloat16 kernels_of() { return {kNative, scratch_of, pack, multiply, round}; }

}  // namespace qkv::kernels::QKV_ISA
