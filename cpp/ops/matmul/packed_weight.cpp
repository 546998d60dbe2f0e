#include "ops/matmul/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>

#include "autograd/strided.h"
#include "ops/matmul/packed_pieces.h"

namespace qkv::ops {
namespace {

// Rows of a matrix, wherever they are: packed already, or in an Array.
template <class T> class Source {
 public:
  Source(const Tensor& weight, PackedMatrixPtr form) : form_(std::move(form)) {
    if (!form_) array_ = packed(weight.data());
  }
  // Rows first to last, (last - first, columns); those of a packed matrix are written to `scratch`.
  const T* rows(Index first, Index last, Index columns, T* scratch) const {
    if (!form_) return array_.data<T>() + first * columns;
    for (Index row = first; row < last; ++row) form_->copy_row(scratch + (row - first) * columns, row);
    return scratch;
  }
  bool is_packed() const { return form_ != nullptr; }
  const Array& array() const { return array_; }

 private:
  PackedMatrixPtr form_;
  Array array_;
};

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// Whether rounding leaves all bits as they are.
bool is_rounded(const float* x, const float* rounded, Index n) {
  return std::memcmp(x, rounded, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}

bool is_rounded(const Array& array) {
  const auto& kernel = kernels::kernels<float>().packed_bfloat16;
  constexpr Index kPiece = 1 << 12;
  std::atomic<bool> all{true};
  parallel_for(0, array.numel(), kPiece, [&](Index begin, Index end) {
    float rounded[kPiece];
    for (; begin < end && all; begin += kPiece) {
      const Index n = std::min(kPiece, end - begin);
      kernel.round(rounded, array.data<float>() + begin, n);
      if (!is_rounded(array.data<float>() + begin, rounded, n)) all = false;
    }
  });
  return all;
}

// `work(panel, rows of it)` for each, on the pool.
template <class T, class Work>
void for_panels(const Source<T>& source, Index rows, Index columns, Index panel, Work work) {
  parallel_for(0, (rows + panel - 1) / panel, grain_for(columns * panel / 8), [&](Index begin, Index end) {
    std::optional<Scratch> scratch;
    if (source.is_packed()) scratch.emplace(static_cast<std::size_t>(panel * columns) * sizeof(T));
    for (Index p = begin; p < end; ++p) {
      const Index first = p * panel, last = std::min(rows, first + panel);
      work(p, source.rows(first, last, columns, scratch ? scratch->template as<T>() : nullptr), last - first);
    }
  });
}

Array new_panels(Index rows, Index columns, Index panel, DType dtype) {
  const Shape shape{(rows + panel - 1) / panel, columns, panel};
  return {shape, dtype, Buffer::allocate_beside(static_cast<std::size_t>(shape.numel() * item_size(dtype)))};
}

// Packs a weight, in the place of `before`, and out of that where it has the same numbers in another order.
template <class T> PackedMatrixPtr pack(const Tensor& weight, bool half, const PackedMatrixPtr& before) {
  const auto& kernels = kernels::kernels<T>();
  const Index rows = weight.dim(0), columns = weight.dim(1), panel = kernels.packed_product.panel;
  const PackedMatrixPtr form = before && before->bfloat16 == half && before->is_of(weight) ? before : nullptr;
  if (!form) weight.data();
  const WeightState of = form ? form->of : WeightState(weight.layout());  // before it is read
  std::optional<Source<T>> source(std::in_place, weight, form);
  bool exact = true;
  const Index depth = half ? (columns + 1) / 2 : columns;
  Array panels = new_panels(rows, depth, panel, weight.dtype());
  if constexpr (std::is_same_v<T, float>)
    if (half) {
      auto* words = static_cast<std::uint32_t*>(panels.raw());
      for_panels(*source, rows, columns, panel, [&](Index p, const T* from, Index count) {
        kernels.packed_bfloat16.pack(words + p * depth * panel, {from, columns, false}, count, columns);
      });
      exact = form ? form->exact : is_rounded(source->array());
    }
  if (!half)
    for_panels(*source, rows, columns, panel, [&](Index p, const T* from, Index count) {
      kernels.packed_product.pack(panels.data<T>() + p * depth * panel, {from, columns, false}, count, columns);
    });
  source.reset();  // it holds the memory
  const PackedMatrixPtr made =
      std::make_shared<const PackedMatrix>(PackedMatrix{panels, rows, columns, panel, half, exact, of});
  keep_packed(weight, before, made);
  // What is asked back may be so again: it goes when the packed form is used a second time.
  if (!weight.impl()->asked_back) give_back(weight, made);
  return made;
}

}  // namespace

bool can_pack(const Array& weight) { return weight.buffer()->own() && !weight.buffer()->is_viewed(); }

PackedMatrixPtr packed_weight(const Tensor& weight, bool bfloat16) {
  return visit_floating(weight.dtype(), [&]<class T>(T) {
    const bool half = bfloat16 && std::is_same_v<T, float>;
    PackedMatrixPtr form = weight.impl()->panels.get();
    if (!form || form->panel != kernels::kernels<T>().packed_product.panel || form->bfloat16 != half ||
        !form->is_of(weight))
      return pack<T>(weight, half, form);
    give_back(weight, form);
    return form;
  });
}

void round_to_bfloat16(const Tensor& t) {
  const auto& kernel = kernels::kernels<float>().packed_bfloat16;
  TensorImpl& impl = *t.impl();
  if (const PackedMatrixPtr form = packed_form(t); impl.in_panels && form->bfloat16) return;
  const Array numbers = packed(t.data());
  t.layout().buffer()->bypass_cache();  // many others go as well
  if (!impl.is_parameter || t.rank() != 2 || impl.base != nullptr) {
    Array rounded(t.shape(), DType::float32);
    kernel.round(rounded.data<float>(), numbers.data<float>(), rounded.numel());
    return impl.set(std::move(rounded));
  }
  const Index rows = t.dim(0), columns = t.dim(1), pairs = (columns + 1) / 2;
  Array words = new_panels(rows, pairs, 1, DType::float32);
  parallel_for(0, rows, grain_for(columns), [&](Index begin, Index end) {
    const Scratch scratch(static_cast<std::size_t>(columns) * sizeof(float));
    float* rounded = scratch.as<float>();
    for (Index row = begin; row < end; ++row) {
      kernel.round(rounded, numbers.data<float>() + row * columns, columns);
      auto* to = static_cast<std::uint32_t*>(words.raw()) + row * pairs;
      for (Index k = 0; k + 1 < columns; k += 2) to[k / 2] = bits_of(rounded[k]) >> 16 | bits_of(rounded[k + 1]);
      if (columns % 2 != 0) to[pairs - 1] = bits_of(rounded[columns - 1]) >> 16;
    }
  });
  impl.set(Array::without_memory(t.shape(), DType::float32));
  const WeightState of(t.layout(), true);
  impl.panels.set(std::make_shared<const PackedMatrix>(PackedMatrix{words, rows, columns, 1, true, true, of}));
  impl.in_panels.store(true, std::memory_order_release);
}

}  // namespace qkv::ops
