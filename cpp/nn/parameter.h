// A Tensor that a module learns.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// A type of its own for its class in Python; what makes a parameter is the mark.
struct ParameterImpl : TensorImpl {
  explicit ParameterImpl(Array d) : TensorImpl(std::move(d)) { requires_grad = is_parameter = true; }
};

inline Tensor make_parameter(Array data) {
  return Tensor(std::static_pointer_cast<TensorImpl>(std::make_shared<ParameterImpl>(std::move(data))));
}

}  // namespace qkv
