// The arguments of one call of attention, checked: what both passes read.
#pragma once

#include <array>

#include "ops/attention/formula/formula.h"
#include "ops/attention/geometry.h"
#include "ops/ops.h"

namespace qkv::ops {

template <class T> class Arguments {
 public:
  static constexpr std::size_t kLeaves = 4;  // where they begin among the inputs

  // Queries, keys and values in dtype T; the value may be undefined where only weights are asked for.
  // `gives_gradients`: there is a backward pass that nobody records, of queries, keys, values and a float mask.
  Arguments(const Tensor& query, const Tensor& key, const Tensor& value, const Geometry& geometry,
            const AttentionOptions& options, bool gives_gradients = false);

  // The call as the kernels read it.
  const kernels::AttentionProblem<T>& problem() const { return problem_; }
  // The same in the backward pass, which has query, key and value. If an array that was kept for it has been changed in
  // place since, that is an error.
  kernels::AttentionProblem<T> problem(const Array& query, const Array& key, const Array& value) const;
  const Array& query() const { return held_[0].layout(); }  // until the next takes it
  // Leaves query, key and value to the node of the graph, which keeps them as its inputs.
  Tensors take_inputs() {
    held_ = {};
    return std::move(inputs_);
  }
  std::size_t inputs() const { return kLeaves + (options.formula != nullptr ? options.formula->leaves.size() : 0); }
  // An IndexError if the formula met an index outside of its array.
  void check_indices() const {
    if (formula_ != nullptr) formula_->check_indices();
  }
  // A float mask, which the formula adds: its number among the leaves, and its places there; its shape broadcasts to
  // (B, H, Lq, Lk).
  struct Bias {
    std::size_t leaf;
    Region places;
  };
  const std::optional<Bias>& bias() const { return bias_; }

  const Geometry geometry;
  // As the call gave them, with floating arrays in T, masks of the axes of (B, H, Lq, Lk), lengths (B) or (B, Lq), the
  // positions (B) of the first queries if anything reads them, and the key of a dropout that was drawn. What changes
  // scores is part of the formula.
  AttentionOptions options;
  bool records = false;  // the call has a backward pass

 private:
  // Binds the formula of a source, whose window narrows the call's; gives its lengths, which may be undefined.
  Array take_source();
  void take_masks(bool gives_gradients);
  void take_arrays(const Array& lengths);
  void take_formula();
  void bind_formula(bool gives_gradients);
  void point(kernels::AttentionProblem<T>& problem, const Array& query, const Array& key, const Array& value) const;

  kernels::AttentionProblem<T> problem_;
  std::array<Tensor, 3> held_;  // queries, keys and values
  // Of a call that records: query, key, value, sinks, the formula's leaves; undefined: none.
  Tensors inputs_;
  std::optional<Bias> bias_;
  std::shared_ptr<const BoundFormula<T>> formula_;
  std::vector<Saved> saved_;
};

// f(call, inputs) of a call without values; an IndexError if the formula met an index outside of its array.
template <class F>
Array with_call(const Array& queries, const Array& keys, const Geometry& g, const AttentionOptions& options, F f) {
  const NoGrad quiet;
  const Tensor q(queries), k(keys);
  const DType dtype = promoted({q, k});
  return visit_floating(dtype, [&]<class T>(T) {
    const Tensors inputs{cast(q, dtype), cast(k, dtype), {}, {}};
    const Arguments<T> call(inputs[0], inputs[1], Tensor(), g, options);
    const Array y = f(call, inputs);
    call.check_indices();
    return y;
  });
}
// The same with heads side by side.
template <class F>
Array with_packed_call(const Array& queries, const Array& keys, Heads heads, const AttentionOptions& options, F f) {
  return with_call(queries, keys, packed_geometry(options.operation, queries.shape(), keys.shape(), 0, heads), options,
                   f);
}

}  // namespace qkv::ops
