// The names of activations in layers and in configurations.
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/kernels.h"

namespace qkv::nn {

using kernels::Activation;

// The activation of this name, which must be one of `names`; messages name `owner` and its `argument`.
Activation activation_named(const char* owner, const char* argument, const std::string& name,
                            std::initializer_list<const char*> names = {"relu", "gelu", "gelu_tanh", "silu"});

}  // namespace qkv::nn
