#include "ops/attention/arguments.h"

#include <cmath>
#include <limits>

#include "core/batch_invariance.h"
#include "core/batch_part.h"
#include "core/in_range.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

using kernels::AttentionProblem;

void check_numbers(const AttentionOptions& o, const Geometry& g) {
  const char* op = o.operation;
  if (o.scale && !std::isfinite(*o.scale)) fail_value(op, ": scale must be a finite number; got ", *o.scale);
  if (!(o.softcap >= 0) || std::isinf(o.softcap))
    fail_value(op, ": softcap must be 0 (off) or a positive number; got ", o.softcap);
  if (!(o.dropout >= 0 && o.dropout <= 1)) fail_value(op, ": dropout_p must be from 0 to 1; got ", o.dropout);
  if (o.window && (o.window->first < -1 || o.window->second < -1))
    fail_value(op, ": window must be (left, right) with -1 for unlimited or numbers from 0; got (", o.window->first,
               ", ", o.window->second, ")");
  if (o.masked_value && std::isnan(*o.masked_value)) fail_value(op, ": masked_value must be a number; got nan");
  if (o.causal == Causal::lower_right && o.q_offset.defined())
    fail_value(op, ": q_offset must not be given with is_causal=\"lower_right\" because that sets it to Lk - Lq = ",
               g.keys - g.queries, "; got both");
}

void check_per_head(const char* op, const char* name, const Shape& shape, const Geometry& g) {
  if (shape != Shape{g.heads}) fail_value(op, ": ", name, " must be (H,) = (", g.heads, ",); got ", name, " ", shape);
}

// A mask of three axes is that of a batch where heads stand side by side.
Shape with_heads(const Shape& shape, const Geometry& g) {
  return g.packed && shape.rank() == 3 ? Shape{shape[0], 1, shape[1], shape[2]} : shape;
}

template <class T> AttentionProblem<T> checked_numbers(const AttentionOptions& o, const Geometry& g) {
  const char* op = o.operation;
  check_numbers(o, g);
  const double usual = g.key_size > 0 ? 1 / std::sqrt(static_cast<double>(g.key_size)) : 1.0;
  AttentionProblem<T> p;
  p.batches = g.batches;
  p.heads = g.heads;
  p.kv_heads = g.kv_heads;
  p.queries = g.queries;
  p.keys = g.keys;
  p.key_size = g.key_size;
  p.value_size = g.value_size;
  p.scale = in_range<T>(op, "scale", o.scale.value_or(usual));
  p.softcap = in_range_above_zero<T>(op, "softcap", o.softcap);
  p.dropout.p = o.dropout;
  p.causal = o.causal != Causal::none;
  if (o.window) std::tie(p.left, p.right) = *o.window;
  p.fill = o.masked_value.has_value();
  if (p.fill) p.masked_value = in_range<T>(op, "masked_value", *o.masked_value);
  p.batch_invariant = batch_invariant();
  return p;
}

// Where a float mask does not exclude. The kernels leave -inf as it is; excluded scores are filled, whatever excludes
// them.
template <class T> Array not_excluded(const Array& bias) {
  Array mask(bias.shape(), DType::boolean);
  for (Index i = 0; i < bias.numel(); ++i)
    mask.data<bool>()[i] = bias.data<T>()[i] != -std::numeric_limits<T>::infinity();
  return mask;
}

// The positions (B) of the first queries.
Array checked_offsets(const AttentionOptions& o, const Geometry& g) {
  const Shape each{g.batches};
  if (o.q_offset.defined() && o.q_offset.rank() != 0 && o.q_offset.shape() != each)
    fail_value(o.operation, ": q_offset must be one number or (B,) = (", g.batches, ",); got q_offset ",
               o.q_offset.shape());
  Array offsets(each, DType::int64);
  for (Index b = 0; b < g.batches; ++b)
    offsets.data<std::int64_t>()[b] =
        o.q_offset.defined() ? o.q_offset.data<std::int64_t>()[o.q_offset.rank() == 1 ? b : 0] : g.keys - g.queries;
  return offsets;
}

}  // namespace

template <class T>
Arguments<T>::Arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g, const AttentionOptions& o)
    : geometry(g), with_weights(o.return_weights), with_lse(o.return_lse), problem_(checked_numbers<T>(o, g)) {
  const char* op = o.operation;
  AttentionProblem<T>& p = problem_;
  held_ = {packed(q), packed(k), v.defined() ? packed(v) : v};
  const auto& [query, key, value] = held_;
  Tensor bias, sinks;
  if (o.attn_mask.defined()) {
    check_mask_dtype(op, o.names.attn_mask, o.attn_mask.dtype());
    const Shape shape = with_heads(o.attn_mask.shape(), g);
    check_broadcasts(op, o.names.attn_mask, shape, g.weights_shape(), o.attn_mask.shape());
    if (o.attn_mask.dtype() == DType::boolean) {
      mask_ = packed(o.attn_mask.data()).reshaped(shape);
    } else {
      bias = packed_as(shape == o.attn_mask.shape() ? o.attn_mask : reshape(o.attn_mask, shape), dtype_v<T>);
      if (p.fill) mask_ = not_excluded<T>(bias.data());
    }
  }
  if (o.valid_lens.defined()) {
    check_lengths(op, o.names.valid_lens, o.valid_lens, g);
    valid_lens_ = o.valid_lens;
    const bool per_query =
        valid_lens_.rank() == 2 || (g.rank == 2 && valid_lens_.shape() == Shape{g.queries} && g.queries > 1);
    p.valid_batch = per_query ? g.queries : 1;
    p.valid_query = per_query ? 1 : 0;
  }
  if (o.alibi_slopes.defined()) {
    check_per_head(op, "alibi_slopes", o.alibi_slopes.shape(), g);
    slopes_ = o.alibi_slopes.cast(dtype_v<T>);
  }
  if (o.causal == Causal::lower_right || o.q_offset.defined()) {
    const Array offsets = checked_offsets(o, g);
    if (p.causal || o.window || slopes_.defined()) offsets_ = offsets;  // else nothing reads positions
  }
  if (o.sinks.defined()) {
    check_per_head(op, "sinks", o.sinks.shape(), g);
    sinks = packed_as(o.sinks, dtype_v<T>);
  }
  if (o.dropout_keep.defined()) {
    const Shape shape = with_heads(o.dropout_keep.shape(), g);
    check_broadcasts(op, "dropout_keep", shape, g.weights_shape(), o.dropout_keep.shape());
    check_keep_is_used(op, o.dropout);
    dropout_keep_ = o.dropout_keep.reshaped(shape);
  } else if (o.dropout_key) {
    p.dropout.key = *o.dropout_key;
    p.dropout.origin = o.dropout_origin;
  } else if (o.dropout > 0) {
    p.dropout.key = default_generator().random64();
    p.dropout.origin.batch = outside_of_part(g.batches).before;
  }

  records = wants_gradient({query, key, value, bias, sinks});
  if (bias.defined()) bias_ = bias.data();
  if (sinks.defined()) sinks_ = sinks.data();
  if (!records) {
    point(query.data(), key.data(), value.defined() ? value.data() : Array());
    return;
  }
  inputs = {owned(query), owned(key), owned(value), owned(bias), owned(sinks)};
  Array queries = inputs[0].data(), keys = inputs[1].data(), values = inputs[2].data();
  for (Array* array :
       {&queries, &keys, &values, &bias_, &sinks_, &mask_, &valid_lens_, &offsets_, &slopes_, &dropout_keep_}) {
    if (!array->defined()) continue;
    saved_.emplace_back(*array);
    *array = saved_.back().get();
  }
  point(queries, keys, values);
  held_ = {};
}

template <class T> void Arguments<T>::point(const Array& query, const Array& key, const Array& value) {
  const Geometry& g = geometry;
  AttentionProblem<T>& p = problem_;
  p.query = g.view<const T>(query.data<T>(), g.heads, g.queries, g.key_size);
  p.key = g.view<const T>(key.data<T>(), g.kv_heads, g.key_rows, g.key_size);
  if (value.defined()) p.value = g.view<const T>(value.data<T>(), g.kv_heads, g.key_rows, g.value_size);
  if (bias_.defined()) p.bias = weights_view<const T>(bias_.data<T>(), bias_.shape(), g);
  if (sinks_.defined()) p.sinks = sinks_.data<T>();
  if (mask_.defined()) p.mask = weights_view<const bool>(mask_.data<bool>(), mask_.shape(), g);
  if (valid_lens_.defined()) p.valid_lens = valid_lens_.data<std::int64_t>();
  if (offsets_.defined()) p.q_offset = offsets_.data<std::int64_t>();
  if (slopes_.defined()) p.slopes = slopes_.data<T>();
  if (dropout_keep_.defined())
    p.dropout.keep = weights_view<const bool>(dropout_keep_.data<bool>(), dropout_keep_.shape(), g);
}

template class Arguments<float>;
template class Arguments<double>;

}  // namespace qkv::ops
