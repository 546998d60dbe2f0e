// Which pairs of a query and a key a call allows, for scores that are in memory: by its rules, a boolean mask and a
// float mask of -inf.
#pragma once

#include <algorithm>

#include "ops/attention/attention.h"

namespace qkv::ops {

// Causal order, window and positions of a call; `offsets` gets those of the first queries, (B), if anything reads them.
kernels::KeyRules checked_rules(const AttentionOptions& options, Index batches, Index queries, Index keys,
                                Array& offsets);
// Lengths of the batch entries or, per_query, of their queries.
void set_lengths(kernels::KeyRules& rules, const Array& valid_lens, bool per_query, Index queries);

// scores + a float mask, if there is one, except for its -inf.
Tensor with_bias(const Tensor& scores, const Tensor& bias);

// 1 where a row of x holds NaN or infinity, (..., n, 1).
Tensor infinite_rows(const Tensor& x);

// Where floats are not -inf.
Tensor not_excluded(const Tensor& scores);

class Allowed {
 public:
  // Of scores ([B, [H,]] Lq, Lk); checks what the options say of them.
  Allowed(const Shape& scores, DType dtype, const AttentionOptions& options);

  Index keys() const { return shape_.dim(-1); }
  bool has_mask() const { return mask().defined(); }
  bool has_bias() const { return has_mask() && mask().dtype() != DType::boolean; }
  // The keys that the rules leave to a row of the scores.
  kernels::KeyRange range(Index row) const {
    return kernels::keys_of(rules_, row / rows_per_batch_, by_query_ ? row % queries_ : 0, keys());
  }
  // The first row from `row` to `end` whose keys may be others.
  Index other_range(Index row, Index end) const {
    return by_query_ ? row + 1 : std::min(end, (row / rows_per_batch_ + 1) * rows_per_batch_);
  }
  // y + mask, for a mask that is added.
  template <class T> void add_bias(T* y, Index row) const;
  // y = value where a pair is excluded.
  template <class T> void exclude(T* y, Index row, T value) const;
  // All pairs, boolean, in the shape of the scores.
  Array array() const;
  // For use after the call: holds memory that nobody else may change.
  void keep();

 private:
  void take_lengths(const AttentionOptions& options);
  void take_mask(const AttentionOptions& options, DType dtype);
  const Array& mask() const { return saved_.defined() ? saved_.get() : mask_; }

  Shape shape_, rows_;  // of the scores; without the axis of keys
  Index queries_ = 0, rows_per_batch_ = 1;
  kernels::KeyRules rules_;
  bool by_query_ = false;  // queries of one batch entry may see different keys
  Array offsets_, lengths_, mask_;
  Saved saved_;
  Strides mask_strides_;
};

}  // namespace qkv::ops
