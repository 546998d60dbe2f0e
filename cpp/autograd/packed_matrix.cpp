#include "autograd/packed_matrix.h"

#include <algorithm>
#include <bit>

#include "core/parallel.h"
#include "kernels/kernels.h"

namespace qkv {
namespace {

// Memory of less is not worth a look at what other threads do.
constexpr Index kLeastBytes = Index{1} << 16;

// Whether the Tensor alone holds its memory, all of it, and the form has the same numbers.
bool can_go(const TensorImpl& t, const PackedMatrix& form) {
  const Array& own = t.array;
  const Buffer& memory = *own.buffer();
  return own.bytes() >= kLeastBytes && form.exact && own.is_packed() &&
         own.bytes() == static_cast<Index>(memory.bytes()) && own.buffer().use_count() == 1 && memory.own() &&
         !memory.fixed() && form.of.is(own);
}

}  // namespace

template <class T> void PackedMatrix::copy_part(T* y, Index row, Index begin, Index end) const {
  const Index lane = row % panel;
  if constexpr (std::is_same_v<T, float>)
    if (bfloat16) {
      const Index pairs = (columns + 1) / 2;
      const auto* words = static_cast<const std::uint32_t*>(numbers.raw()) + row / panel * pairs * panel + lane;
      for (Index k = begin; k < end; k += 2) {
        const std::uint32_t word = words[k / 2 * panel];
        *y++ = std::bit_cast<float>(word << 16);
        if (k + 1 < end) *y++ = std::bit_cast<float>(word & 0xffff0000u);
      }
      return;
    }
  const T* from = numbers.data<T>() + row / panel * columns * panel + lane;
  for (Index k = begin; k < end; ++k) *y++ = from[k * panel];
}

template void PackedMatrix::copy_part(float*, Index, Index, Index) const;
template void PackedMatrix::copy_part(double*, Index, Index, Index) const;

Array PackedMatrix::plain() const {
  const Uninterrupted whole;     // callers read an Array that they have
  constexpr Index kAtOnce = 64;  // columns; all rows of a panel are read while these are in the first cache
  Array result({rows, columns}, dtype());
  visit_floating(dtype(), [&]<class T>(T) {
    T* y = result.data<T>();
    const Index height = bfloat16 ? std::max<Index>(panel, 16) : panel;
    parallel_for(0, (rows + height - 1) / height, grain_for(height * columns), [&](Index first, Index last) {
      const Index end = std::min(rows, last * height);
      for (Index top = first * height; top < end; top += height)
        if (!bfloat16)
          kernels::kernels<T>().layout.transpose(y + top * columns, columns, numbers.data<T>() + top * columns, panel,
                                                 columns, std::min(panel, end - top));
        else
          for (Index k = 0; k < columns; k += kAtOnce)
            for (Index row = top; row < std::min(end, top + height); ++row)
              copy_part(y + row * columns + k, row, k, std::min(columns, k + kAtOnce));
    });
  });
  return result;
}

PackedMatrixPtr packed_form(const Tensor& t) {
  PackedMatrixPtr form = t.impl()->panels.get();
  return form && form->is_of(t) ? form : nullptr;
}

void keep_packed(const Tensor& t, const PackedMatrixPtr& before, const PackedMatrixPtr& made) {
  t.impl()->panels.replace(before, made);
}

void give_back(const Tensor& tensor, const PackedMatrixPtr& form) {
  TensorImpl& t = *tensor.impl();
  if (t.in_panels.load(std::memory_order_acquire) || !can_go(t, *form)) return;
  std::shared_ptr<Buffer> memory;  // goes when others may run again
  change_alone([&] {
    if (t.in_panels || !can_go(t, *form) || t.panels.get() != form) return;
    memory = t.array.take_out();
    t.in_panels.store(true, std::memory_order_release);
  });
}

Array numbers_of(const Tensor& t) {
  if (t.impl()->in_panels.load(std::memory_order_acquire))
    if (const PackedMatrixPtr form = t.impl()->panels.get()) return form->plain();
  return t.data();
}

void TensorImpl::unpack() {
  const PackedMatrixPtr form = panels.get();
  if (!form || !in_panels.load(std::memory_order_acquire)) return;  // another thread was first
  Array numbers = form->plain();
  {
    const Lock lock(mutex_of(this));
    if (!in_panels.load(std::memory_order_relaxed)) return;
    array.put_in(std::move(numbers));
    asked_back = true;
    in_panels.store(false, std::memory_order_release);
  }
  panels.replace(form, nullptr);
}

void TensorImpl::set(Array data) {
  array = std::move(data);
  in_panels.store(false, std::memory_order_release);
  panels.set(nullptr);
}

}  // namespace qkv
