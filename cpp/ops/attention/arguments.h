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
  Shape bias_shape() const { return bias_.shape(); }

  Geometry geometry;
  bool with_weights, with_lse;
  bool records = false;  // the call has a backward pass
  // Of a call that records: query, key, value, bias (a float mask), sinks; undefined where there is none.
  Tensors inputs;

 private:
  void point(const Array& query, const Array& key, const Array& value);

  kernels::AttentionProblem<T> problem_;
  std::array<Tensor, 3> held_;  // queries, keys and values of a call that does not record
  // What the problem points to beside these.
  Array bias_, sinks_, mask_, valid_lens_, offsets_, slopes_, dropout_keep_;
  std::vector<Saved> saved_;
};

}  // namespace qkv::ops
