// Linear layers for inference, with a packed copy of the weight.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "autograd/tensor.h"
#include "kernels/activation.h"

namespace qkv::ops {

// A packed copy of one weight, made at its first use and again when the weight has changed. May be used by several
// threads at once.
class PackedWeight {
 public:
  // The copy for this weight (out, in), as kernels/packed_linear.h describes it.
  Array get(const Array& weight);
  void clear();

 private:
  std::mutex mutex_;
  std::weak_ptr<Buffer> of_;
  const void* at_ = nullptr;
  std::uint64_t version_ = 0;
  Array packed_;
};

// activation(x @ weight^T + bias) without a gradient; bias may be undefined, the activation absent.
Tensor packed_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, std::optional<kernels::Activation> activation,
                     PackedWeight& packed);

}  // namespace qkv::ops
