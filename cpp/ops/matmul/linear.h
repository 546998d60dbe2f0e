// Linear layers for inference, with a packed copy of the weight.
#pragma once

#include <optional>
#include <span>

#include "autograd/tensor.h"
#include "kernels/activation.h"

namespace qkv::ops {

// The weight and the bias are the layer's own, which outlives the call.
struct LinearLayer {
  const Tensor& weight;
  const Tensor& bias;  // may be undefined
  std::optional<kernels::Activation> activation = {};
  bool bfloat16 = false;
};

// activation(x @ weight^T + bias) of each layer, without gradients, for x packed and in the weights' dtype: layers that
// share an input are one piece of work.
Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers);

}  // namespace qkv::ops
