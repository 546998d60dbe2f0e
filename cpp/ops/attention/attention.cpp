// Scaled dot-product attention: checks, the fused kernels, and what the backward pass needs of them.
#include "ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "core/batch_invariance.h"
#include "core/in_range.h"
#include "ops/attention/composed.h"
#include "ops/attention/geometry.h"
#include "ops/attention/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

// The caller's options, checked and in the dtype of the call; holds what the problem points to.
template <class T> struct Prepared {
  AttentionProblem<T> problem;
  Tensor bias;  // float mask in dtype T, or undefined
  Array mask;   // boolean mask
  Array valid_lens, offsets, slopes, keep;
  Tensor sinks;
};

void check_numbers(const AttentionOptions& o, const Geometry& g) {
  const char* op = o.operation;
  if (o.scale && !std::isfinite(*o.scale)) fail_value(op, ": scale must be a finite number; got ", *o.scale);
  if (!(o.softcap >= 0) || std::isinf(o.softcap))
    fail_value(op, ": softcap must be 0 (off) or a positive number; got ", o.softcap);
  if (!(o.dropout_p >= 0 && o.dropout_p <= 1)) fail_value(op, ": dropout_p must be from 0 to 1; got ", o.dropout_p);
  if (o.left < -1 || o.right < -1)
    fail_value(op, ": window must be (left, right) with -1 for unlimited or numbers from 0; got (", o.left, ", ",
               o.right, ")");
  if (o.masked_value && std::isnan(*o.masked_value)) fail_value(op, ": masked_value must be a number; got nan");
  if (o.causal == Causal::lower_right && o.q_offset.defined())
    fail_value(op, ": q_offset must not be given with is_causal=\"lower_right\" because that sets it to Lk - Lq = ",
               g.keys - g.queries, "; got both");
}

template <class T> Prepared<T> prepare(const AttentionOptions& o, const Geometry& g) {
  const char* op = o.operation;
  check_numbers(o, g);
  Prepared<T> p;
  AttentionProblem<T>& problem = p.problem;
  problem.batches = g.batches;
  problem.heads = g.heads;
  problem.kv_heads = g.kv_heads;
  problem.queries = g.queries;
  problem.keys = g.keys;
  problem.key_size = g.key_size;
  problem.value_size = g.value_size;
  problem.scale = in_range<T>(op, "scale",
                              o.scale          ? *o.scale
                              : g.key_size > 0 ? 1 / std::sqrt(static_cast<double>(g.key_size))
                                               : 1.0);
  problem.softcap = in_range_above_zero<T>(op, "softcap", o.softcap);
  problem.uniform = batch_invariant();
  problem.causal = o.causal != Causal::none;
  problem.left = o.left;
  problem.right = o.right;
  if (o.masked_value) {
    problem.fill = true;
    problem.masked_value = in_range<T>(op, "masked_value", *o.masked_value);
  }

  if (o.attn_mask.defined()) {
    Tensor mask = o.attn_mask;
    if (mask.dtype() == DType::int64)
      fail_type(op, ": attn_mask must be boolean (True = may attend) or floating (added to the scores); got dtype ",
                mask.dtype());
    if (g.packed && mask.rank() == 3) mask = reshape(mask, {mask.dim(0), 1, mask.dim(1), mask.dim(2)});
    check_broadcasts(op, "attn_mask", mask.shape(), g.weights_shape());
    if (mask.dtype() == DType::boolean) {
      p.mask = mask.data();
      problem.mask = weights_view<const bool>(p.mask.template data<bool>(), p.mask.shape(), g);
    } else {
      p.bias = cast(mask, dtype_v<T>);
      if (o.masked_value) {  // the kernels leave -inf as it is; excluded scores are filled, whatever excludes them
        p.mask = Array(p.bias.shape(), DType::boolean);
        const T* bias = p.bias.template ptr<T>();
        for (Index i = 0; i < p.bias.numel(); ++i)
          p.mask.template data<bool>()[i] = bias[i] != -std::numeric_limits<T>::infinity();
        problem.mask = weights_view<const bool>(p.mask.template data<bool>(), p.mask.shape(), g);
      }
    }
  }
  if (o.scores.defined()) {
    check_broadcasts(op, "scores", o.scores.shape(), g.weights_shape());
    const Tensor scores = cast(o.scores, dtype_v<T>);
    p.bias = p.bias.defined() ? add(scores, p.bias) : scores;
  }
  if (p.bias.defined()) problem.bias = weights_view<const T>(p.bias.template ptr<T>(), p.bias.shape(), g);
  if (o.valid_lens.defined()) {
    check_lengths(op, o.valid_lens, g);
    p.valid_lens = o.valid_lens;
    problem.valid_lens = p.valid_lens.template data<std::int64_t>();
    const bool per_query =
        p.valid_lens.rank() == 2 || (g.rank == 2 && p.valid_lens.shape() == Shape{g.queries} && g.queries > 1);
    problem.valid_batch = per_query ? g.queries : 1;
    problem.valid_query = per_query ? 1 : 0;
  }
  if (o.alibi_slopes.defined()) {
    if (o.alibi_slopes.shape() != Shape{g.heads})
      fail_value(op, ": alibi_slopes must be (H,) = (", g.heads, ",); got alibi_slopes ", o.alibi_slopes.shape());
    p.slopes = o.alibi_slopes.cast(dtype_v<T>);
    problem.slopes = p.slopes.template data<T>();
  }
  if (o.causal == Causal::lower_right || o.q_offset.defined()) {
    p.offsets = Array(Shape{g.batches}, DType::int64);
    const bool each = o.q_offset.defined() && o.q_offset.rank() == 1;
    if (o.q_offset.defined() && o.q_offset.rank() != 0 && o.q_offset.shape() != Shape{g.batches})
      fail_value(op, ": q_offset must be one number or (B,) = (", g.batches, ",); got q_offset ", o.q_offset.shape());
    for (Index b = 0; b < g.batches; ++b)
      p.offsets.template data<std::int64_t>()[b] =
          o.q_offset.defined() ? o.q_offset.data<std::int64_t>()[each ? b : 0] : g.keys - g.queries;
    problem.q_offset = p.offsets.template data<std::int64_t>();
  }
  if (o.sinks.defined()) {
    if (o.sinks.shape() != Shape{g.heads})
      fail_value(op, ": sinks must be (H,) = (", g.heads, ",); got sinks ", o.sinks.shape());
    p.sinks = cast(o.sinks, dtype_v<T>);
    problem.sinks = p.sinks.template ptr<T>();
  }
  problem.dropout = o.dropout_p;
  if (o.dropout_keep.defined()) {
    const Shape& keep = o.dropout_keep.shape();
    const bool no_heads = g.packed && keep.rank() == 3;
    p.keep = no_heads ? o.dropout_keep.reshaped({keep[0], 1, keep[1], keep[2]}) : o.dropout_keep;
    check_broadcasts(op, "dropout_keep", p.keep.shape(), g.weights_shape());
    if (o.dropout_p > 0)
      problem.dropout_keep = weights_view<const bool>(p.keep.template data<bool>(), p.keep.shape(), g);
    else p.keep = {};  // nothing is dropped
  } else if (o.dropout_p > 0) {
    problem.dropout_key = (o.generator != nullptr ? *o.generator : default_generator()).random64();
  }
  return p;
}

template <class T>
void point_to(AttentionProblem<T>& problem, const Geometry& g, const Array& q, const Array& k, const Array& v) {
  problem.query = g.view<const T>(q.data<T>(), g.heads, g.queries, g.key_size);
  problem.key = g.view<const T>(k.data<T>(), g.kv_heads, g.key_rows, g.key_size);
  if (v.defined()) problem.value = g.view<const T>(v.data<T>(), g.kv_heads, g.key_rows, g.value_size);
}

template <class T> WeightsView<T> contiguous_weights(const Array& weights, const Geometry& g) {
  return {weights.data<T>(), g.heads * g.queries * g.keys, g.queries * g.keys, g.keys, 1};
}

// What the pull-back keeps. The problem's pointers lead into the saved arrays.
template <class T> struct Kept {
  AttentionProblem<T> problem;
  Geometry geometry;
  Saved q, k, v, out, statistics, mask, bias, valid_lens, offsets, slopes, sinks, keep;

  bool with_weights, with_lse;

  ComposedShapes shapes() const {
    return {geometry.packed,
            geometry.key_rows,
            lifted(bias.defined() ? bias.get().shape() : Shape{}, geometry),
            geometry.output_shape(),
            geometry.weights_shape(),
            geometry.lse_shape(),
            with_weights,
            with_lse};
  }

  AttentionProblem<T> ready() const {
    AttentionProblem<T> p = problem;
    point_to<T>(p, geometry, q.get(), k.get(), v.get());
    if (mask.defined()) p.mask.data = mask.data<bool>();
    if (bias.defined()) p.bias.data = bias.data<T>();
    if (valid_lens.defined()) p.valid_lens = valid_lens.data<std::int64_t>();
    if (offsets.defined()) p.q_offset = offsets.data<std::int64_t>();
    if (slopes.defined()) p.slopes = slopes.data<T>();
    if (sinks.defined()) p.sinks = sinks.data<T>();
    if (keep.defined()) p.dropout_keep.data = keep.data<bool>();
    return p;
  }
};

template <class T> void pull_back(const Kept<T>& kept, std::span<const Array> dys, Gradients& dx) {
  const Geometry& g = kept.geometry;
  const AttentionProblem<T> problem = kept.ready();
  const Array dout = dys[0].defined() ? dys[0] : Array::zeros(g.output_shape(), dtype_v<T>);
  AttentionSaved<T> saved;
  saved.dout = g.view<const T>(dout.data<T>(), g.heads, g.queries, g.value_size);
  saved.out = g.view<const T>(kept.out.template data<T>(), g.heads, g.queries, g.value_size);
  saved.statistics = kept.statistics.template data<T>();
  if (kept.with_weights && dys[1].defined()) {
    const auto view = contiguous_weights<T>(dys[1], g);
    saved.dweights = {view.data, view.batch, view.head, view.query, view.key};
  }
  const std::size_t lse_at = kept.with_weights ? 2 : 1;
  if (kept.with_lse && dys[lse_at].defined()) saved.dlse = dys[lse_at].data<T>();

  AttentionGradients<T> gradients;
  if (dx.wants(0)) gradients.dquery = g.view<T>(dx.of(0).data<T>(), g.heads, g.queries, g.key_size);
  if (dx.wants(1)) gradients.dkey = g.view<T>(dx.of(1).data<T>(), g.kv_heads, g.key_rows, g.key_size);
  if (dx.wants(2)) gradients.dvalue = g.view<T>(dx.of(2).data<T>(), g.kv_heads, g.key_rows, g.value_size);
  if (dx.wants(3)) gradients.dbias = weights_view<T>(dx.of(3).data<T>(), kept.bias.get().shape(), g);
  if (dx.wants(4)) gradients.dsinks = dx.of(4).data<T>();
  attention_backward(gradients, saved, problem);
}

template <class T>
AttentionOutputs run(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g, const AttentionOptions& o) {
  Prepared<T> p = prepare<T>(o, g);
  point_to<T>(p.problem, g, q.data(), k.data(), v.data());
  const bool recording = wants_gradient({q, k, v, p.bias, p.sinks});
  Array out(g.output_shape(), dtype_v<T>), weights, lse, statistics;
  AttentionResult<T> result;
  result.out = g.view<T>(out.data<T>(), g.heads, g.queries, g.value_size);
  if (o.return_weights) {
    weights = Array(g.weights_shape(), dtype_v<T>);
    result.weights = contiguous_weights<T>(weights, g);
  }
  if (o.return_lse) {
    lse = Array(g.lse_shape(), dtype_v<T>);
    result.lse = lse.data<T>();
  }
  if (recording) {
    statistics = Array(Shape{g.batches, g.heads, g.queries, 2}, dtype_v<T>);
    result.statistics = statistics.data<T>();
  }
  attention_forward(result, p.problem);

  AttentionOutputs outputs;
  if (!recording) {
    outputs.output = Tensor(std::move(out));
    if (o.return_weights) outputs.weights = Tensor(std::move(weights));
    if (o.return_lse) outputs.lse = Tensor(std::move(lse));
    return outputs;
  }
  const Tensors inputs{owned(q), owned(k), owned(v), owned(p.bias), owned(p.sinks)};
  const auto kept = std::make_shared<const Kept<T>>(
      Kept<T>{p.problem, g, Saved(inputs[0]), Saved(inputs[1]), Saved(inputs[2]), Saved(out), Saved(statistics),
              Saved(p.mask), Saved(inputs[3]), Saved(p.valid_lens), Saved(p.offsets), Saved(p.slopes), Saved(inputs[4]),
              Saved(p.keep), o.return_weights, o.return_lse});
  std::vector<Array> results{std::move(out)};
  if (o.return_weights) results.push_back(std::move(weights));
  if (o.return_lse) results.push_back(std::move(lse));
  Tensors recorded = record_many(
      std::move(results), inputs, [kept](std::span<const Array> dys, Gradients& dx) { pull_back<T>(*kept, dys, dx); },
      [kept](std::span<const Tensor> dys, TensorGradients& dx) {
        derive_composed(dys, dx,
                        [&](const Tensors& given) { return composed_attention(kept->ready(), given, kept->shapes()); });
      });
  outputs.output = recorded[0];
  if (o.return_weights) outputs.weights = recorded[1];
  if (o.return_lse) outputs.lse = recorded.back();
  return outputs;
}

AttentionOutputs dispatch(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g,
                          const AttentionOptions& o) {
  return visit_floating(q.dtype(), [&](auto tag) { return run<decltype(tag)>(q, k, v, g, o); });
}

}  // namespace

AttentionOutputs attention(const Tensor& query, const Tensor& key, const Tensor& value,
                           const AttentionOptions& options) {
  const Geometry g = plain_geometry(query.shape(), key.shape(), value.shape(), options);
  const DType dtype = promoted({query, key, value});
  return dispatch(cast(query, dtype), cast(key, dtype), cast(value, dtype), g, options);
}

AttentionOutputs packed_attention(const Tensor& query, const Tensor& key, const Tensor& value, Heads heads,
                                  const AttentionOptions& options) {
  const Geometry g = packed_geometry(options.operation, query.shape(), key.shape(), value.dim(2), heads);
  const DType dtype = promoted({query, key, value});
  return dispatch(cast(query, dtype), cast(key, dtype), cast(value, dtype), g, options);
}

Array packed_attention_weights(const Array& queries, const Array& keys, Heads heads, const AttentionOptions& options) {
  const NoGrad quiet;
  const Tensor q(queries), k(keys);
  const DType dtype = promoted({q, k});
  const Array query = queries.cast(dtype), key = keys.cast(dtype);
  const Geometry g = packed_geometry(options.operation, query.shape(), key.shape(), 0, heads);
  Array weights(g.weights_shape(), query.dtype());
  visit_floating(query.dtype(), [&](auto tag) {
    using T = decltype(tag);
    Prepared<T> p = prepare<T>(options, g);
    point_to<T>(p.problem, g, query, key, Array());
    attention_weights(contiguous_weights<T>(weights, g), p.problem);
  });
  return weights;
}

}  // namespace qkv::ops
