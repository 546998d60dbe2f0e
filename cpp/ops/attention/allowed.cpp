#include "ops/attention/allowed.h"

#include <algorithm>
#include <limits>

#include "core/strides.h"
#include "kernels/kernels.h"
#include "ops/lengths.h"
#include "ops/ops.h"

namespace qkv::ops {

kernels::KeyRules checked_rules(const AttentionOptions& o, Index batches, Index queries, Index keys, Array& offsets) {
  const char* op = o.operation;
  const Array& given = o.q_offset;
  kernels::KeyRules rules;
  rules.causal = o.causal != Causal::none;
  if (o.window) std::tie(rules.left, rules.right) = *o.window;
  if (rules.left < -1 || rules.right < -1)
    fail_value(op, ": window must be (left, right) with -1 for unlimited or numbers from 0; got (", rules.left, ", ",
               rules.right, ")");
  if (o.causal == Causal::lower_right && given.defined())
    fail_value(op, ": q_offset must not be given with is_causal=\"lower_right\" because that sets it to Lk - Lq = ",
               keys - queries, "; got both");
  if (given.defined() && given.rank() != 0 && given.shape() != Shape{batches})
    fail_value(op, ": q_offset must be one number or (B,) = (", batches, ",); got q_offset ", given.shape());
  const bool reads = differ_by_query(rules) || o.alibi_slopes.defined() || o.formula_source;
  if (!reads || (o.causal != Causal::lower_right && !given.defined())) return rules;
  offsets = Array({batches}, DType::int64);
  for (Index b = 0; b < batches; ++b)
    offsets.data<std::int64_t>()[b] =
        given.defined() ? given.data<std::int64_t>()[given.rank() == 1 ? b : 0] : keys - queries;
  rules.q_offset = offsets.data<std::int64_t>();
  return rules;
}

void set_lengths(kernels::KeyRules& rules, const Array& valid_lens, bool per_query, Index queries) {
  rules.valid_lens = valid_lens.data<std::int64_t>();
  rules.valid_batch = per_query ? queries : 1;
  rules.valid_query = per_query ? 1 : 0;
}

void check_mask_dtype(const char* operation, const char* name, DType dtype) {
  if (dtype == DType::int64)
    fail_type(operation, ": ", name,
              " must be boolean (True = may attend) or floating (added to the scores); got dtype ", dtype);
}

Tensor not_excluded(const Tensor& scores) {
  return compare(Compare::not_equal, scores, scalar_like(scores, -std::numeric_limits<double>::infinity()));
}

Tensor with_bias(const Tensor& scores, const Tensor& bias) {
  if (!bias.defined()) return scores;
  return add(scores, cast(where(not_excluded(bias), bias, scalar_like(bias, 0)), scores.dtype()));
}

Allowed::Allowed(const Shape& scores, DType dtype, const AttentionOptions& o) : shape_(scores) {
  const Index rank = shape_.rank();
  if (rank < 2 || rank > 4)
    fail_value(o.operation, ": scores must be (Lq, Lk), (B, Lq, Lk) or (B, H, Lq, Lk); got scores ", shape_);
  rows_ = Shape(shape_.begin(), shape_.end() - 1);
  queries_ = shape_.dim(-2);
  rows_per_batch_ = rank == 4 ? shape_.dim(1) * queries_ : queries_;
  rules_ = checked_rules(o, rank == 2 ? 1 : shape_.dim(0), queries_, keys(), offsets_);
  if (o.valid_lens.defined()) take_lengths(o);
  if (o.attn_mask.defined()) take_mask(o, dtype);
  by_query_ = differ_by_query(rules_);
}

void Allowed::take_lengths(const AttentionOptions& o) {
  const bool alone = shape_.rank() == 2;
  const Shape one = alone ? Shape{} : Shape{shape_.dim(0)},
              each = alone ? Shape{queries_} : Shape{shape_.dim(0), queries_};
  lengths_ = checked_lengths(o.operation, o.valid_lens, one, each, keys(), {.lengths = o.names.valid_lens});
  set_lengths(rules_, lengths_, lengths_.shape() != one, queries_);
}

void Allowed::take_mask(const AttentionOptions& o, DType dtype) {
  const Tensor& mask = o.attn_mask;
  check_mask_dtype(o.operation, o.names.attn_mask, mask.dtype());
  Shape common;
  if (!broadcast(mask.shape(), shape_, common) || common != shape_)
    fail_value(o.operation, ": ", o.names.attn_mask, " must broadcast to the scores' shape ", shape_, "; got ",
               o.names.attn_mask, " ", mask.shape());
  mask_ = packed(mask.data());
  if (mask.dtype() != DType::boolean) mask_ = mask_.cast(dtype);
  mask_strides_ = broadcast_strides(mask.shape(), shape_);
}

void Allowed::keep() {
  saved_ = Saved(mask_);
  mask_ = Array();
}

template <class T> void Allowed::add_bias(T* y, Index row) const {
  const T* bias = mask().data<T>() + offset_of(row, rows_, mask_strides_);
  kernels::kernels<T>().elementwise.binary(kernels::Binary::add, y, y, 1, bias, mask_strides_.back(), keys());
}

template <class T> void Allowed::exclude(T* y, Index row, T value) const {
  const auto [low, high] = range(row);
  const Index step = has_mask() ? mask_strides_.back() : 0,
              first = has_mask() ? offset_of(row, rows_, mask_strides_) + low * step : 0;
  const bool* allowed = has_mask() && !has_bias() ? mask().data<bool>() + first : nullptr;
  const T* bias = has_bias() ? mask().data<T>() + first : nullptr;
  std::fill_n(y, low, value);
  kernels::kernels<T>().softmax.exclude(y + low, allowed, step, bias, step, high - low, value, keys() - low);
}

Array Allowed::array() const {
  const DType dtype = has_bias() ? mask().dtype() : DType::float32;
  const Array kept = Array::full(shape_, dtype, 1);
  visit_floating(dtype, [&]<class T>(T) {
    for (Index row = 0; row < rows_.numel(); ++row) exclude(kept.data<T>() + row * keys(), row, T(0));
  });
  return kept.cast(DType::boolean);
}

template void Allowed::add_bias(float*, Index) const;
template void Allowed::add_bias(double*, Index) const;
template void Allowed::exclude(float*, Index, float) const;
template void Allowed::exclude(double*, Index, double) const;

}  // namespace qkv::ops
