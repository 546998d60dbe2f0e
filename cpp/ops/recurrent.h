// Recurrent layers. Of the gated recurrent unit one operation is a whole layer over all time steps:
//
//     r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)      z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
//     n = tanh(W_in x + b_in + r (W_hn h + b_hn))     h' = (1 - z) n + z h
#pragma once

#include <memory>
#include <optional>

#include "autograd/tensor.h"
#include "ops/matmul/weight_cache.h"

namespace qkv::ops {

// weight_ih (3 H, M), weight_hh (3 H, H), biases (3 H) or both undefined; gates in the order r, z, n.
struct GruParameters {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

// The weights of a layer in the order in which the kernels read them.
struct GruCaches {
  WeightCache gates, columns;  // of weight_hh, for the forward and the backward pass
};

// What a layer is called in messages, where its parameters' names may end in its number, "weight_hh_l1".
struct RecurrentLayer {
  Index hidden;
  std::optional<Index> number = {};
};

struct GruOutput {
  Tensor outputs, state;  // (B, T, H), zeros after valid_lens; (B, H), the state after the last valid step
};

// x (B, T, M) of the parameters' dtype; state (B, H) or undefined for zeros; valid_lens int64 (B), checked and nobody
// else's, or undefined; 0 = the state stays. What is in x after valid_lens is never read.
GruOutput gru_layer(const RecurrentLayer& layer, const Tensor& x, const Tensor& state, const GruParameters& parameters,
                    const Array& valid_lens = {},
                    std::shared_ptr<const GruCaches> caches = std::make_shared<GruCaches>());

// One step of long short-term memory: h' (B, H) and c' (B, H) of c (B, H) and of what goes into the gates i, f, g, o,
// the sum of from_input and from_state (B, 4 H).
//
//     c' = sigmoid(f) c + sigmoid(i) tanh(g)      h' = sigmoid(o) tanh(c')
struct LstmOutput {
  Tensor h, c;
};
LstmOutput lstm_step(const Tensor& from_input, const Tensor& from_state, const Tensor& c);

}  // namespace qkv::ops
