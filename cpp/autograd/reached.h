// Which Tensors have a part in another.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// For each input whether gradients of the output flow to it.
std::vector<bool> reached(const Tensor& output, const Tensors& inputs);

}  // namespace qkv
