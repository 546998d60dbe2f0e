// Linear layers for inference, with a packed copy of the weight.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "autograd/tensor.h"
#include "kernels/activation.h"

namespace qkv::ops {

// A packed copy of one weight, made at its first use and again when the weight has changed. May be used by several
// threads at once.
class PackedWeight {
 public:
  // The copy for this weight (out, in), as kernels/packed_product.h or, if wanted and the weight is float32,
  // kernels/packed_bfloat16.h describes it.
  Array get(const Array& weight, bool bfloat16);

 private:
  std::mutex mutex_;
  std::weak_ptr<Buffer> of_;
  const void* at_ = nullptr;
  std::uint64_t version_ = 0;
  bool bfloat16_ = false;
  Array packed_;
};

struct LinearLayer {
  Tensor weight, bias;  // the bias may be undefined
  PackedWeight* packed;
  std::optional<kernels::Activation> activation = {};
  bool bfloat16 = false;
};

// activation(x @ weight^T + bias) of each layer, without gradients: layers that share an input are one piece of work.
Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers);

}  // namespace qkv::ops
