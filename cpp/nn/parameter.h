// A Tensor that a module learns.
#pragma once

#include "autograd/tensor.h"

namespace qkv {

// A type of its own so that Module can tell a parameter from any other Tensor that is assigned to it.
struct ParameterImpl : TensorImpl {
  explicit ParameterImpl(Array d) : TensorImpl(std::move(d)) { requires_grad = true; }
  bool follows_module = false;  // made without a dtype: the module that it is assigned to decides
};

inline Tensor make_parameter(Array data) {
  return Tensor(std::static_pointer_cast<TensorImpl>(std::make_shared<ParameterImpl>(std::move(data))));
}

}  // namespace qkv
