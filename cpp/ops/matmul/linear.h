// Linear layers for inference, with a packed copy of the weight.
#pragma once

#include <optional>
#include <span>

#include "autograd/tensor.h"
#include "kernels/activation.h"
#include "ops/matmul/weight_cache.h"

namespace qkv::ops {

// A weight (out, in) as kernels/matmul/packed_product.h or, if wanted and the weight is float32,
// kernels/matmul/packed_bfloat16.h describes it.
Array packed_weight(const WeightCache& cache, const Array& weight, bool bfloat16);

// The weight and the bias are the layer's own, which outlives the call.
struct LinearLayer {
  const Tensor& weight;
  const Tensor& bias;  // may be undefined
  const WeightCache* packed;
  std::optional<kernels::Activation> activation = {};
  bool bfloat16 = false;
};

// activation(x @ weight^T + bias) of each layer, without gradients, for x packed and in the weights' dtype: layers that
// share an input are one piece of work.
Tensors packed_linears(const Tensor& x, std::span<const LinearLayer> layers);

}  // namespace qkv::ops
