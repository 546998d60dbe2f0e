// The arguments of one call of attention, checked: what both passes read.
#pragma once

#include <array>

#include "ops/attention/geometry.h"

namespace qkv::ops {

template <class T> class Arguments {
 public:
  // Queries, keys and values in dtype T; the value may be undefined where only weights are asked for.
  Arguments(const Tensor& query, const Tensor& key, const Tensor& value, const Geometry& geometry,
            const AttentionOptions& options);

  // The call as the kernels read it. If an array that was kept for the backward pass has been changed in place since,
  // that is an error.
  const kernels::AttentionProblem<T>& problem() const {
    for (const Saved& array : saved_) array.get();
    return problem_;
  }
  // The shape of a float mask, broadcast to (B, H, Lq, Lk).
  const Shape& bias_shape() const { return options.attn_mask.shape(); }

  const Geometry geometry;
  // As the call gave them, with floating arrays in T, masks of the axes of (B, H, Lq, Lk), lengths (B) or (B, Lq), the
  // positions (B) of the first queries if anything reads them, and the key of a dropout that was drawn.
  AttentionOptions options;
  bool records = false;  // the call has a backward pass
  // Of a call that records: query, key, value, bias (a float mask), sinks; undefined where there is none.
  Tensors inputs;

 private:
  void take_masks();
  void take_arrays();
  void point(const Array& query, const Array& key, const Array& value);
  bool has_bias() const { return options.attn_mask.defined() && options.attn_mask.dtype() != DType::boolean; }

  kernels::AttentionProblem<T> problem_;
  std::array<Tensor, 3> held_;  // queries, keys and values of a call that does not record
  Array not_excluded_;          // where a float mask does not exclude; of a call that fills
  std::vector<Saved> saved_;
};

}  // namespace qkv::ops
