// How a product with a packed matrix is cut into pieces for the pool.
#pragma once

#include <algorithm>

#include "core/buffer.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv::ops {

// y (rows, columns), rows ldy apart, = x (rows, depth) @ packed, finished. Pieces are some rows by some panels: few rows
// are cut by panels, many by rows. The borders depend on the sizes alone.
template <class T>
void multiply_packed(T* y, Index ldy, const kernels::Operand<T>& x, const T* packed, const kernels::Finish<T>& finish,
                     Index rows, Index columns, Index depth) {
  // Multiply-adds that are worth a piece of their own (some 10 us), where reading a number of the packed matrix takes as
  // long as eight of them; and pieces that are enough.
  constexpr Index kPieceWork = Index{1} << 19, kReading = 8, kEnough = 16;
  const auto& kernel = kernels::kernels<T>().packed_product;
  const Index panels = (columns + kernel.panel - 1) / kernel.panel;
  const Index blocks = std::max<Index>(1, (rows + kernel.block_rows - 1) / kernel.block_rows);
  const Index height = ((rows + blocks - 1) / blocks + kernel.tile_rows - 1) / kernel.tile_rows * kernel.tile_rows;
  const Index pieces_of_rows = (rows + height - 1) / height;
  const Index wanted = std::clamp<Index>(std::max(rows, kReading) * depth * columns / kPieceWork, 1, kEnough);
  const Index parts = std::min(panels, (wanted + pieces_of_rows - 1) / pieces_of_rows);
  const Index width = (panels + parts - 1) / parts, pieces_of_panels = (panels + width - 1) / width;
  parallel_for(0, pieces_of_rows * pieces_of_panels, 1, [&](Index begin, Index end) {
    const Scratch scratch(static_cast<std::size_t>(kernel.scratch) * sizeof(T));
    for (Index piece = begin; piece < end; ++piece) {
      const Index row = piece / pieces_of_panels * height, first = piece % pieces_of_panels * width;
      const kernels::Operand<T> from{x.at(row, 0), x.stride, x.transposed};
      kernel.multiply(y + row * ldy, ldy, from, packed, finish, scratch.as<T>(), std::min(height, rows - row), columns, depth,
                      first, std::min(panels, first + width));
    }
  });
}

// Packs an operand (columns, depth), panel by panel on the pool.
template <class T> void pack_panels(T* packed, const kernels::Operand<T>& operand, Index columns, Index depth) {
  const auto& kernel = kernels::kernels<T>().packed_product;
  parallel_for(0, (columns + kernel.panel - 1) / kernel.panel, grain_for(depth * kernel.panel / 8), [&](Index begin, Index end) {
    const Index first = begin * kernel.panel, last = std::min(columns, end * kernel.panel);
    kernel.pack(packed + first * depth, {operand.at(first, 0), operand.stride, operand.transposed}, last - first, depth);
  });
}

}  // namespace qkv::ops
