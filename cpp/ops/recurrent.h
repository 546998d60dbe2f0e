// The gated recurrent unit: one operation is a whole layer over all time steps.
//
//     r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)      z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//     n = tanh(W_in x + b_in + r (W_hn h + b_hn))     h' = (1 - z) n + z h
#pragma once

#include <memory>

#include "autograd/tensor.h"
#include "ops/matmul/linear.h"

namespace qkv::ops {

// weight_ih (3 H, M), weight_hh (3 H, H), biases (3 H) or both undefined; gates in the order r, z, n.
struct GruParameters {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

// The weights of a layer in the order in which the kernels read them.
struct GruCaches {
  WeightCache input;           // of weight_ih, for layers without gradients
  WeightCache gates, columns;  // of weight_hh, for the forward and the backward pass
};

struct GruOutput {
  Tensor outputs, state;  // (B, T, H), zeros behind valid_lens; (B, H), the state after the last valid step
};

// x (B, T, M); state (B, H) or undefined for zeros; valid_lens int64 (B) or undefined, 0 = the state stays. What stands
// in x behind valid_lens is never read.
GruOutput gru_layer(const Tensor& x, const Tensor& state, const GruParameters& parameters, const Array& valid_lens = {},
                    std::shared_ptr<const GruCaches> caches = std::make_shared<GruCaches>());

}  // namespace qkv::ops
