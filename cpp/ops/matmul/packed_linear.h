// Linear layers for inference, with a packed copy of the weight.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "autograd/tensor.h"
#include "core/locks.h"
#include "kernels/activation.h"

namespace qkv::ops {

// A packed copy of one weight, made at its first use and again when the weight has changed. Threads that find none at
// the same time make one each; the last is kept.
class PackedWeight {
 public:
  // The copy for this weight (out, in), as kernels/matmul/packed_product.h or, if wanted and the weight is float32,
  // kernels/matmul/packed_bfloat16.h describes it.
  Array get(const Array& weight, bool bfloat16) const;

 private:
  struct Packed {
    std::weak_ptr<Buffer> of;
    const void* at;
    std::uint64_t version;
    bool bfloat16;
    Array numbers;
  };
  mutable Published<Packed> packed_;
};

struct LinearLayer {
  Tensor weight, bias;  // the bias may be undefined
  const PackedWeight* packed;
  std::optional<kernels::Activation> activation = {};
  bool bfloat16 = false;
};

// activation(x @ weight^T + bias) of each layer, without gradients: layers that share an input are one piece of work.
Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers);

}  // namespace qkv::ops
