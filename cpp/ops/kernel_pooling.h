// Nadaraya-Watson pooling: averages of the values with weights K(|q - k| / bandwidth) / sum.
//
// queries, keys: scalars (L), points (L, D) or batches (B, L, D). values: (Lk), or (..., Lk, Dv). valid_lens: int64, ()
// or (Lq) without a batch, else (B) or (B, Lq); may be undefined. bandwidth: one number above 0.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_pooling.h"
#include "ops/attention/attention.h"
#include "ops/ops.h"

namespace qkv::ops {

using kernels::Kernel;

Kernel kernel_named(const char* operation, const std::string& name);

// Output (..., Lq) for values (Lk), else (..., Lq, Dv); weights (..., Lq, Lk), undefined unless wanted.
AttentionOutputs kernel_attention(const Tensor& queries, const Tensor& keys, const Tensor& values, Kernel kernel,
                                  const Tensor& bandwidth, const Array& valid_lens, bool with_weights);

// The parts, for kernels of the caller's own. u (..., Lq, Lk) = distance / bandwidth, with gradient 0 at distance 0;
// where a key is excluded the distance is 1, even if it holds NaN. The distance is that of an order, (sum |q -
// k|^order)^(1 / order), from 0 on: 0 counts the features that differ, infinity takes the largest difference.
Tensor scaled_distances(const Tensor& queries, const Tensor& keys, const Tensor& bandwidth, const Array& valid_lens,
                        double order = 2);
// kernel values (..., Lq, Lk) divided by their sum over the allowed keys and pooled.
AttentionOutputs pool_by_kernel(const Tensor& kernel_values, const Tensor& values, const Array& valid_lens);

Tensor kernel_values(const Tensor& u, Kernel kernel);  // K(|u|), element by element

// For each bandwidth the mean over i and the values' features of (y_i - prediction from all other points)^2; the
// prediction is the mean of y where no other point has weight.
// points (L, D), values (L, Dv), both floating and of one dtype. sample_weight: float64 (L), above 0 and 1 on
// average, or not defined; factors of the kernel and of the squares.
std::vector<double> leave_one_out_errors(const Array& points, const Array& values, Kernel kernel,
                                         const std::vector<double>& bandwidths, const Array& sample_weight);

}  // namespace qkv::ops
