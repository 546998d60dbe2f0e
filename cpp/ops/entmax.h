// entmax, whose errors name the function that was called.
#pragma once

#include "ops/ops.h"

namespace qkv::ops {

Tensor entmax(const char* operation, const Tensor& x, double alpha, Index axis);

}  // namespace qkv::ops
