// Linear attention: instead of a softmax over all keys a state (D, Dv), which each key and value changes and each query
// reads.
#pragma once

#include "ops/ops.h"

namespace qkv::ops {

// How a step changes the state S, with its key k, value v, decay g and update rate b:
//   linear       S + k v^T
//   gated        exp(g) S + k v^T
//   delta        S + b k (v - S^T k)^T
//   gated_delta  exp(g) S + b k (v - exp(g) S^T k)^T
enum class UpdateRule { linear, gated, delta, gated_delta };
UpdateRule update_rule_named(const char* operation, const std::string& name);
const char* name_of(UpdateRule rule);
inline bool decays(UpdateRule rule) { return rule == UpdateRule::gated || rule == UpdateRule::gated_delta; }
inline bool corrects(UpdateRule rule) { return rule == UpdateRule::delta || rule == UpdateRule::gated_delta; }

struct LinearAttentionOptions {
  UpdateRule rule = UpdateRule::linear;
  std::optional<double> scale;  // of the queries; 1 / sqrt(D) if not given
  Index chunk_size = 64;        // steps that are computed together
};

struct LinearAttentionOutput {
  Tensor output;  // (B, H, T, Dv)
  Tensor state;   // (B, Hkv, D, Dv), after the last step
};

// query (B, H, T, D), key (B, Hkv, T, D), value (B, Hkv, T, Dv), H a multiple of Hkv; state (B, Hkv, D, Dv) or
// undefined for zeros; decay, in log space, (B, Hkv, T) or (B, Hkv, T, D), and beta (B, Hkv, T) where the rule has
// them, else undefined. A step's query reads the state after the step.
LinearAttentionOutput linear_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& decay,
                                       const Tensor& beta, const Tensor& state, const LinearAttentionOptions& options);

// Decays below this are taken for it: their exponentials are 0, and sums of finite numbers have differences.
inline double least_decay(DType dtype) { return dtype == DType::float64 ? -746 : -104; }

// --- forward.cpp: the forward pass without history. Arrays are packed and of one floating dtype;
// decay and beta may be undefined; `state` holds the first state, then the last. Gives the output.
Array linear_attention_forward(const Array& query, const Array& key, const Array& value, const Array& decay,
                               const Array& beta, const Array& state, double scale, Index chunk_size);

// --- chunk_products.cpp: what a chunk of C steps needs
// sum_d q[r, d] k[j, d] exp(total[i, d] - total[j, d]) for j <= i = r mod C, else 0: (M, R, C) of q (M, R, D), k and
// total (M, C, D), where total is the sum of decays up to each step.
Tensor decayed_products(const Tensor& q, const Tensor& k, const Tensor& total);
// The same of one block in memory, with scratch of so many elements.
struct ProductSizes {
  Index blocks, rows, steps, features;
};
template <class T> Index decayed_products_scratch(const ProductSizes& n);
template <class T>
void decayed_products(T* y, const T* q, const T* k, const T* total, const ProductSizes& n, T* scratch);
// (I + x)^-1 of matrices x (..., C, C) that are 0 on and above the diagonal.
Tensor unit_lower_inverse(const Tensor& x);

}  // namespace qkv::ops
