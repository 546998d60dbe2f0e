#include "autograd/leaf_gradient.h"

#include <thread>

#include "autograd/tensor.h"
#include "core/locks.h"
#include "core/parallel.h"

namespace qkv {
LeafGradient::Quiet::Quiet(LeafGradient& gradient) : gradient_(gradient) {
  const unsigned mine = 1 + forks();
  unsigned found = 0;
  while (!gradient.quiet_.compare_exchange_weak(found, mine, std::memory_order_acquire)) {
    if (found == mine) {
      std::this_thread::yield();
      found = 0;
    }
  }
}

Array LeafGradient::get() const {
  const Tensor held = tensor();
  return held.defined() ? held.data() : Array();
}

Tensor LeafGradient::tensor() const {
  const Lock lock(mutex_of(this));
  return Tensor(tensor_);
}

void LeafGradient::set(Array array) {
  share(array.defined() ? std::make_shared<TensorImpl>(std::move(array)) : nullptr);
}

void LeafGradient::share(std::shared_ptr<TensorImpl> tensor) {
  const Lock lock(mutex_of(this));
  tensor_.swap(tensor);  // the old one ends after the lock is released
}

void LeafGradient::add(Array part) {
  const Quiet quiet(*this);
  while (true) {
    const Tensor held = tensor();
    if (!held.defined()) {
      if (2 * part.bytes() < static_cast<Index>(part.buffer()->bytes())) part = part.clone();  // it keeps no more
      part.make_unique();
      auto first = std::make_shared<TensorImpl>(std::move(part));
      const Lock lock(mutex_of(this));
      if (tensor_ == nullptr) {
        tensor_ = std::move(first);
        return;
      }
      part = first->array;
      continue;
    }
    const Array& sum = held.data();
    if (sum.shape() != part.shape())
      fail_runtime("backward: the gradient of a leaf of shape ", part.shape(), " was given other data, of shape ",
                   sum.shape(), ", which it cannot be added to");
    if (sum.dtype() != part.dtype()) part = part.cast(sum.dtype());
    if (sum.is_packed() && !sum.buffer()->borrowed()) {
      if (part.buffer() == sum.buffer() && !part.is(sum)) part = part.clone();
      add_packed(sum, part);
      sum.buffer()->raise_version();
      return;
    }
    Array total = cloned(sum);
    add_packed(total, part);
    if (replace(sum, std::move(total))) return;
  }
}

bool LeafGradient::replace(const Array& before, Array array) {
  auto tensor = std::make_shared<TensorImpl>(array);
  const Lock lock(mutex_of(this));
  if (!(tensor_ ? tensor_->array : Array()).is(before)) return false;
  tensor_.swap(tensor);
  return true;
}

}  // namespace qkv
