#include "ops/packed_linear.h"

#include <algorithm>

#include "core/buffer.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

constexpr Index kBlockRows = 96;               // rows of one piece, in whole tiles
constexpr Index kPieceWork = Index{1} << 22;  // multiply-adds that are worth a piece of their own

}  // namespace

Array PackedWeight::get(const Array& weight) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t version = weight.version();
  if (packed_.defined() && of_.lock() == weight.buffer() && at_ == weight.raw() && version_ == version) return packed_;
  const Index out = weight.dim(0), in = weight.dim(1);
  visit_floating(weight.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto& kernel = kernels::kernels<T>().packed_linear;
    const Index panels = (out + kernel.panel - 1) / kernel.panel;
    Array packed({panels, in, kernel.panel}, weight.dtype());
    parallel_for(0, panels, grain_for(in * kernel.panel), [&](Index begin, Index end) {
      kernel.pack(packed.data<T>() + begin * in * kernel.panel, weight.data<T>() + begin * kernel.panel * in,
                  std::min(out, end * kernel.panel) - begin * kernel.panel, in);
    });
    packed_ = packed;
  });
  of_ = weight.buffer();
  at_ = weight.raw();
  version_ = version;
  return packed_;
}

void PackedWeight::clear() {
  const std::lock_guard lock(mutex_);
  packed_ = Array();
  of_.reset();
}

Tensor packed_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::optional<kernels::Activation> activation,
                     PackedWeight& cache) {
  const Index in = weight.dim(1), out = weight.dim(0), rows = x.shape().product(0, x.rank() - 1);
  Shape shape = x.shape();
  shape.back() = out;
  Array y(shape, x.dtype());
  if (y.numel() == 0) return Tensor(std::move(y));
  const Array packed = cache.get(weight.data());
  visit_floating(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const auto& kernel = kernels::kernels<T>().packed_linear;
    const kernels::Finish<T> finish{bias.defined() ? bias.ptr<T>() : nullptr, activation.has_value(), activation.value_or(kernels::Activation::relu)};
    // Pieces of some rows by some panels: few rows are cut by panels, many by rows.
    const Index blocks = (rows + kBlockRows - 1) / kBlockRows;
    const Index height = ((rows + blocks - 1) / blocks + kernel.tile_rows - 1) / kernel.tile_rows * kernel.tile_rows;
    const Index pieces_of_rows = (rows + height - 1) / height, panels = packed.dim(0);
    const Index per_panel = std::max<Index>(1, std::min(height, rows) * in * kernel.panel);
    const Index width = blocks > 4 ? panels : std::clamp<Index>(kPieceWork / per_panel, 1, panels);
    const Index pieces_of_panels = (panels + width - 1) / width;
    parallel_for(0, pieces_of_rows * pieces_of_panels, 1, [&](Index begin, Index end) {
      const Scratch scratch(static_cast<std::size_t>(kernel.scratch) * sizeof(T));
      for (Index piece = begin; piece < end; ++piece) {
        const Index row = piece / pieces_of_panels * height, first = piece % pieces_of_panels * width;
        kernel.multiply(y.data<T>() + row * out, x.ptr<T>() + row * in, packed.data<T>(), finish, scratch.as<T>(), std::min(height, rows - row), out,
                        in, first, std::min(panels, first + width));
      }
    });
  });
  return Tensor(std::move(y));
}

}  // namespace qkv::ops
