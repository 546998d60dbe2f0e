// How a product with a packed matrix is cut into pieces for the pool.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "core/buffer.h"
#include "core/parallel.h"
#include "core/reproducible.h"
#include "kernels/kernels.h"

namespace qkv::ops {

// The CPU's own products of bfloat16 numbers round in their own way.
inline const kernels::PackedBfloat16& bfloat16_products() {
  const auto& table = kernels::kernels<float>();
  return reproducible() ? table.widened_bfloat16 : table.packed_bfloat16;
}

// y (rows, columns), rows ldy apart, = x (rows, depth) @ packed, finished.
template <class T> struct PackedTask {
  T* y;
  Index ldy;
  kernels::Operand<T> x;
  const T* packed;
  kernels::Epilogue<T> epilogue;
  Index rows, columns, depth;
  const std::uint32_t* bfloat16 = nullptr;  // instead of `packed`: kernels/matmul/packed_bfloat16.h
};

// Pieces of a task: some rows by some panels. Few rows are cut by panels, many by rows; the borders depend on the sizes
// alone.
template <class T> struct PackedPieces {
  Index height, width, of_panels, count;  // rows and panels of a piece; pieces side by side; pieces

  explicit PackedPieces(const PackedTask<T>& t) {
    // Multiply-adds that are worth a piece of their own (some 10 us), where reading a number of the packed matrix takes
    // as long as eight of them; and pieces that are enough.
    constexpr Index kPieceWork = Index{1} << 19, kReading = 8, kEnough = 16;
    const auto& kernel = kernels::kernels<T>().packed_product;
    const Index panels = (t.columns + kernel.panel - 1) / kernel.panel;
    // A transposed operand is gathered once per piece, which must pay: its pieces are short, and eight panels wide or
    // more.
    const Index block_rows = t.x.transposed ? kernel.tile_rows * 8 : kernel.block_rows;
    const Index blocks = std::max<Index>(1, (t.rows + block_rows - 1) / block_rows);
    height = ((t.rows + blocks - 1) / blocks + kernel.tile_rows - 1) / kernel.tile_rows * kernel.tile_rows;
    const Index of_rows = height == 0 ? 0 : (t.rows + height - 1) / height;
    const Index wanted = std::clamp<Index>(std::max(t.rows, kReading) * t.depth * t.columns / kPieceWork, 1, kEnough);
    const Index most = t.x.transposed ? std::max<Index>(1, panels / 8) : panels;
    const Index parts = std::max<Index>(1, std::min(most, (wanted + blocks - 1) / blocks));
    width = (panels + parts - 1) / parts;
    of_panels = width == 0 ? 0 : (panels + width - 1) / width;
    count = of_rows * of_panels;
  }

  void run(const PackedTask<T>& t, Index piece, T* scratch) const {
    const auto& kernel = kernels::kernels<T>().packed_product;
    const Index row = piece / of_panels * height, first = piece % of_panels * width;
    const Index panels = (t.columns + kernel.panel - 1) / kernel.panel;
    if constexpr (std::is_same_v<T, float>) {
      if (t.bfloat16 != nullptr)
        return bfloat16_products().multiply(t.y + row * t.ldy, t.ldy, {t.x.at(row, 0), t.x.stride, false}, t.bfloat16,
                                            t.epilogue, scratch, std::min(height, t.rows - row), t.columns, t.depth,
                                            first, std::min(panels, first + width));
    }
    const Index last = std::min(panels, first + width);
    const T* next_piece = last < panels ? t.packed + last * kernel.panel * t.depth : nullptr;
    kernel.multiply(t.y + row * t.ldy, t.ldy, {t.x.at(row, 0), t.x.stride, t.x.transposed}, t.packed, t.epilogue,
                    scratch, std::min(height, t.rows - row), t.columns, t.depth, first, last, next_piece);
  }
};

// All tasks at once on the pool.
template <class T> void multiply_packed(std::span<const PackedTask<T>> tasks) {
  std::vector<PackedPieces<T>> pieces(tasks.begin(), tasks.end());
  Index count = 0, room = kernels::kernels<T>().packed_product.scratch;
  for (const auto& p : pieces) count += p.count;
  for (const auto& t : tasks)
    if (t.bfloat16 != nullptr)
      room = std::max({room, kernels::kernels<T>().packed_bfloat16.scratch(t.depth),
                       kernels::kernels<T>().widened_bfloat16.scratch(t.depth)});
  parallel_for(0, count, 1, [&](Index begin, Index end) {
    const Scratch scratch(static_cast<std::size_t>(room) * sizeof(T));
    for (Index piece = begin; piece < end; ++piece) {
      std::size_t task = 0;
      Index at = piece;
      while (at >= pieces[task].count) at -= pieces[task++].count;
      pieces[task].run(tasks[task], at, scratch.as<T>());
    }
  });
}

// Packs an operand (columns, depth), panel by panel on the pool.
template <class T> void pack_panels(T* packed, const kernels::Operand<T>& operand, Index columns, Index depth) {
  const auto& kernel = kernels::kernels<T>().packed_product;
  parallel_for(0, (columns + kernel.panel - 1) / kernel.panel, grain_for(depth * kernel.panel / 8),
               [&](Index begin, Index end) {
                 const Index first = begin * kernel.panel, last = std::min(columns, end * kernel.panel);
                 kernel.pack(packed + first * depth, {operand.at(first, 0), operand.stride, operand.transposed},
                             last - first, depth);
               });
}

}  // namespace qkv::ops
