#include "ops/attention/arguments.h"

#include <algorithm>
#include <cmath>

#include "core/batch_part.h"
#include "core/in_range.h"
#include "core/reproducible.h"
#include "ops/attention/allowed.h"
#include "ops/attention/normalizer.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::AttentionProblem;

template <class T> AttentionProblem<T> checked_numbers(const AttentionOptions& o, const Geometry& g) {
  const char* op = o.operation;
  checked(op, o);
  check_dropout(o);
  check_normalizer(o);
  for (const auto& [name, field, from_zero] : kScoreNumbers)
    (from_zero ? in_range_above_zero<T> : in_range<T>)(op, name, o.*field);
  const double default_scale = g.key_size > 0 ? 1 / std::sqrt(static_cast<double>(g.key_size)) : 1.0;
  AttentionProblem<T> p;
  static_cast<kernels::AttentionSizes&>(p) = g;
  p.scale = in_range<T>(op, "scale", o.scale.value_or(default_scale));
  p.dropout.p = o.dropout;
  p.fill = o.masked_value.has_value();
  if (p.fill) p.masked_value = in_range<T>(op, "masked_value", *o.masked_value);
  p.normalizer = o.normalizer;
  p.reproducible = reproducible();
  return p;
}

// The smaller of two sides of windows; -1: unlimited.
Index narrower(Index a, Index b) { return a < 0 || b < 0 ? std::max(a, b) : std::min(a, b); }

// The smaller of lengths (B) or (B, Lq) and others (B).
Array shorter(const Array& lengths, const Array& others) {
  const Tensor each(lengths.rank() == 2 ? others.reshaped({others.dim(0), 1}) : others);
  return binary(Binary::minimum, Tensor(lengths), each).data();
}

// As the kernels read it: by its strides; the last is 1.
Tensor with_rows(const Tensor& x) { return !x.defined() || has_rows(x.layout()) ? x : packed(x); }

// The shape of an array that broadcasts to the weights, checked, with the axes of (B, H, Lq, Lk).
Shape checked_mask(const char* op, const char* name, const Shape& given, const Geometry& g) {
  const Shape shape = g.packed ? lifted(given, g) : given;
  check_broadcasts(op, name, shape, g.weights_shape(), given);
  return lifted(shape, g);
}

}  // namespace

const SharedOptions& checked(const char* operation, const SharedOptions& o) {
  if (o.scale && !std::isfinite(*o.scale)) fail_value(operation, ": scale must be a finite number; got ", *o.scale);
  if (o.masked_value && std::isnan(*o.masked_value)) fail_value(operation, ": masked_value must be a number; got nan");
  for (const auto& [name, field, from_zero] : kScoreNumbers)
    if (!std::isfinite(o.*field) || (from_zero && o.*field < 0))
      fail_value(operation, ": ", name, " must be ", from_zero ? "0 (off) or a positive number" : "a finite number",
                 "; got ", o.*field);
  return o;
}

template <class T>
Arguments<T>::Arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g, const AttentionOptions& o,
                        bool gives_gradients)
    : geometry(g), options(o), problem_(checked_numbers<T>(o, g)) {
  Array offsets;
  static_cast<kernels::KeyRules&>(problem_) = checked_rules(o, g.batches, g.queries, g.keys, offsets);
  options.q_offset = offsets;
  if (o.causal == Causal::lower_right) options.causal = Causal::upper_left;
  held_ = {with_rows(q), with_rows(k), with_rows(v)};
  const Array lengths = take_source();
  take_masks(gives_gradients);
  take_arrays(lengths);

  take_formula();
  const Tensors none, &leaves = options.formula != nullptr ? options.formula->leaves : none;
  records = wants_gradient({held_[0], held_[1], held_[2], options.sinks}) || wants_gradient(leaves);
  if (records) {
    inputs_ = {held_[0], held_[1], held_[2], options.sinks};
    for (const Tensor& leaf : leaves) inputs_.push_back(is_floating(leaf.dtype()) ? leaf : Tensor());
    for (Tensor& x : inputs_) x = owned(std::move(x));
    for (std::size_t i = 0; i < held_.size(); ++i) held_[i] = inputs_[i];
    options.sinks = inputs_[3];
    for (Tensor* x : {&options.attn_mask, &options.sinks})
      if (x->defined()) *x = Tensor(saved_.emplace_back(x->data()).get());
    for (Array* x : {&options.valid_lens, &options.q_offset, &options.dropout_keep})
      if (x->defined()) *x = saved_.emplace_back(*x).get();
  }
  if (options.formula != nullptr) bind_formula(gives_gradients);
  point(problem_, held_[0].data(), held_[1].data(), held_[2].defined() ? held_[2].data() : Array());
}

template <class T>
kernels::AttentionProblem<T> Arguments<T>::problem(const Array& query, const Array& key, const Array& value) const {
  for (const Saved& array : saved_) array.get();
  kernels::AttentionProblem<T> result = problem_;
  point(result, query, key, value);
  return result;
}

template <class T> Array Arguments<T>::take_source() {
  if (!options.formula_source) return {};
  const FormulaSource::Bound bound = options.formula_source->bind({geometry, options.q_offset, dtype_v<T>});
  const auto [left, right] = bound.window;
  problem_.left = narrower(problem_.left, left);
  problem_.right = narrower(problem_.right, right);
  if (problem_.right == 0) {
    problem_.right = -1;
    problem_.causal = true;
    options.causal = Causal::upper_left;
  }
  options.window = {problem_.left, problem_.right};
  options.formula = bound.formula;
  return bound.valid_lens;
}

template <class T> void Arguments<T>::take_masks(bool gives_gradients) {
  AttentionOptions& o = options;
  if (Tensor& mask = o.attn_mask; mask.defined()) {
    check_mask_dtype(o.operation, o.names.attn_mask, mask.dtype());
    const Shape shape = checked_mask(o.operation, o.names.attn_mask, mask.shape(), geometry);
    if (shape != mask.shape()) mask = reshape(mask, shape);
    // A mask without a gradient is read where it is.
    const bool by_strides = !gives_gradients && !wants_gradient({mask});
    if (by_strides) mask = Tensor(without_repeats(mask.data()));
    const DType dtype = o.has_bias() ? dtype_v<T> : DType::boolean;
    if (!by_strides || !has_rows(mask.data()) || mask.dtype() != dtype) mask = packed_as(mask, dtype);
  }
  kernels::DropoutOptions& dropout = problem_.dropout;
  if (o.dropout_keep.defined()) {
    o.dropout_keep =
        o.dropout_keep.reshaped(checked_mask(o.operation, "dropout_keep", o.dropout_keep.shape(), geometry));
  } else if (o.dropout_key) {
    dropout.key = *o.dropout_key;
    dropout.origin = o.dropout_origin;
  } else if (o.dropout > 0) {
    o.dropout_key = dropout.key = default_generator().random64();
    o.dropout_origin.batch = dropout.origin.batch = outside_of_part(geometry.batches).before;
  }
}

template <class T> void Arguments<T>::take_arrays(const Array& lengths) {
  AttentionOptions& o = options;
  const Geometry& g = geometry;
  const auto take_per_head = [&](const char* name, Tensor& x) {
    if (!x.defined()) return;
    if (x.shape() != Shape{g.heads})
      fail_value(o.operation, ": ", name, " must be (H,) = (", g.heads, ",); got ", name, " ", x.shape());
    x = packed_as(x, dtype_v<T>);
  };
  if (o.valid_lens.defined()) {
    const Shape given = o.valid_lens.shape();
    o.valid_lens = checked_lengths(o.operation, o.names.valid_lens, o.valid_lens, g);
    const bool per_query = given.rank() == 2 || (g.rank == 2 && given == Shape{g.queries} && g.queries > 1);
    o.valid_lens = o.valid_lens.reshaped(per_query ? Shape{g.batches, g.queries} : Shape{g.batches});
  }
  if (lengths.defined()) o.valid_lens = o.valid_lens.defined() ? shorter(o.valid_lens, lengths) : lengths;
  if (o.valid_lens.defined()) set_lengths(problem_, o.valid_lens, o.valid_lens.rank() == 2, g.queries);
  take_per_head("alibi_slopes", o.alibi_slopes);
  take_per_head("sinks", o.sinks);
}

// What changes scores becomes the formula, whose floating leaves become inputs, in T.
template <class T> void Arguments<T>::take_formula() {
  AttentionOptions& o = options;
  // A formula of the call's own could make a finite score of -inf.
  const bool excludes_first = problem_.fill || (o.formula != nullptr && o.formula->program->excludes);
  const auto formula = with_options(o, geometry, dtype_v<T>);
  if (o.has_bias()) {
    const auto& kinds = formula->program->graph().leaves;
    const bool is_table = kinds.back().type == NumberType::integer;  // of its rows
    const Shape& shape = o.attn_mask.shape();
    bias_ = is_table ? Bias{kinds.size() - 2, places_of(o.attn_mask.data())}
                     : Bias{kinds.size() - 1, {shape, row_major(shape)}};
    o.attn_mask = excludes_first ? not_excluded(o.attn_mask) : Tensor();
  }
  o.formula = formula;
  static_cast<ScoreNumbers&>(o) = {};
  o.alibi_slopes = {};
  o.distance_bias = {};
}

template <class T> void Arguments<T>::bind_formula(bool gives_gradients) {
  std::shared_ptr<const Formula> formula = options.formula;
  std::vector<bool> wanted(records || gives_gradients ? formula->leaves.size() : 0);
  if (gives_gradients && bias_) wanted[bias_->leaf] = true;
  if (records) {
    const auto own = std::make_shared<Formula>(*formula);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Tensor& input = inputs_[kLeaves + i];
      if (!input.defined()) continue;
      wanted[i] = wanted[i] || wants_gradient({input});
      own->leaves[i] = Tensor(saved_.emplace_back(input.data()).get());
    }
    formula = own;
  }
  if (bias_) problem_.bias = weights_view<const T>(formula->leaves[bias_->leaf].data().view(bias_->places), geometry);
  formula_ = std::make_shared<const BoundFormula<T>>(std::move(formula), geometry, options.operation,
                                                     records || gives_gradients, wanted);
  problem_.formula = &formula_->view();
}

template <class T>
void Arguments<T>::point(kernels::AttentionProblem<T>& p, const Array& query, const Array& key,
                         const Array& value) const {
  const Geometry& g = geometry;
  const AttentionOptions& o = options;
  p.query = g.view<const T>(query, g.heads, g.queries, g.key_size);
  p.key = g.view<const T>(key, g.kv_heads, g.key_rows, g.key_size);
  p.value = g.view<const T>(value, g.kv_heads, g.key_rows, g.value_size);
  if (o.attn_mask.defined()) p.mask = weights_view<const bool>(o.attn_mask.data(), g);
  if (o.sinks.defined()) p.sinks = o.sinks.ptr<T>();
  p.dropout.keep = weights_view<const bool>(o.dropout_keep, g);
  p.valid_lens = numbers<std::int64_t>(o.valid_lens);
  p.q_offset = numbers<std::int64_t>(o.q_offset);
}

template class Arguments<float>;
template class Arguments<double>;

}  // namespace qkv::ops
