// Scaled dot-product attention: the fused kernels and their gradients.
#include "ops/attention/attention.h"

#include "ops/attention/arguments.h"
#include "ops/attention/composed.h"
#include "ops/attention/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

template <class T> WeightsView<T> contiguous_weights(const Array& weights, const Geometry& g) {
  return {weights.data<T>(), g.heads * g.queries * g.keys, g.queries * g.keys, g.keys, 1};
}

// What the backward pass needs.
template <class T> struct Forward {
  Arguments<T> arguments;
  Saved out, statistics;
};

template <class T> void pull_back(const Forward<T>& forward, std::span<const Array> dys, Gradients& dx) {
  const Arguments<T>& call = forward.arguments;
  const Geometry& g = call.geometry;
  const Array dout = dys[0].defined() ? dys[0] : Array::zeros(g.output_shape(), dtype_v<T>);
  AttentionSaved<T> saved;
  saved.dout = g.view<const T>(dout.data<T>(), g.heads, g.queries, g.value_size);
  saved.out = g.view<const T>(forward.out.template data<T>(), g.heads, g.queries, g.value_size);
  saved.statistics = forward.statistics.template data<T>();
  if (call.options.return_weights && dys[1].defined()) {
    const auto view = contiguous_weights<T>(dys[1], g);
    saved.dweights = {view.data, view.batch, view.head, view.query, view.key};
  }
  if (call.options.return_lse && dys.back().defined()) saved.dlse = dys.back().data<T>();

  AttentionGradients<T> gradients;
  if (dx.wants(0)) gradients.dquery = g.view<T>(dx.of(0).data<T>(), g.heads, g.queries, g.key_size);
  if (dx.wants(1)) gradients.dkey = g.view<T>(dx.of(1).data<T>(), g.kv_heads, g.key_rows, g.key_size);
  if (dx.wants(2)) gradients.dvalue = g.view<T>(dx.of(2).data<T>(), g.kv_heads, g.key_rows, g.value_size);
  if (dx.wants(3)) gradients.dbias = weights_view<T>(dx.of(3).data<T>(), call.bias_shape(), g);
  if (dx.wants(4)) gradients.dsinks = dx.of(4).data<T>();
  attention_backward(gradients, saved, call.problem());
}

template <class T>
AttentionOutputs run(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g, const AttentionOptions& o) {
  Arguments<T> call(q, k, v, g, o);
  Array out(g.output_shape(), dtype_v<T>), weights, lse, statistics;
  AttentionResult<T> result;
  result.out = g.view<T>(out.data<T>(), g.heads, g.queries, g.value_size);
  if (call.options.return_weights) {
    weights = Array(g.weights_shape(), dtype_v<T>);
    result.weights = contiguous_weights<T>(weights, g);
  }
  if (call.options.return_lse) {
    lse = Array(g.lse_shape(), dtype_v<T>);
    result.lse = lse.data<T>();
  }
  if (call.records) {
    statistics = Array(Shape{g.batches, g.heads, g.queries, 2}, dtype_v<T>);
    result.statistics = statistics.data<T>();
  }
  attention_forward(result, call.problem());

  AttentionOutputs outputs;
  if (!call.records) {
    outputs.output = Tensor(std::move(out));
    if (call.options.return_weights) outputs.weights = Tensor(std::move(weights));
    if (call.options.return_lse) outputs.lse = Tensor(std::move(lse));
    return outputs;
  }
  Tensors inputs = std::move(call.inputs);
  const auto forward = std::make_shared<const Forward<T>>(Forward<T>{std::move(call), Saved(out), Saved(statistics)});
  std::vector<Array> results{std::move(out)};
  if (weights.defined()) results.push_back(std::move(weights));
  if (lse.defined()) results.push_back(std::move(lse));
  const Tensors recorded = record_many(
      std::move(results), std::move(inputs),
      [forward](std::span<const Array> dys, Gradients& dx) { pull_back<T>(*forward, dys, dx); },
      [forward](std::span<const Tensor> dys, TensorGradients& dx) {
        derive_composed(dys, dx, [&](const Tensors& given) { return composed_attention(forward->arguments, given); });
      });
  outputs.output = recorded[0];
  if (o.return_weights) outputs.weights = recorded[1];
  if (o.return_lse) outputs.lse = recorded.back();
  return outputs;
}

AttentionOutputs dispatch(const Tensor& query, const Tensor& key, const Tensor& value, const Geometry& g,
                          const AttentionOptions& o) {
  const DType dtype = promoted({query, key, value});
  return visit_floating(dtype, [&](auto tag) {
    return run<decltype(tag)>(cast(query, dtype), cast(key, dtype), cast(value, dtype), g, o);
  });
}

}  // namespace

AttentionOutputs attention(const Tensor& query, const Tensor& key, const Tensor& value,
                           const AttentionOptions& options) {
  return dispatch(query, key, value, plain_geometry(query.shape(), key.shape(), value.shape(), options), options);
}

AttentionOutputs packed_attention(const Tensor& query, const Tensor& key, const Tensor& value, Heads heads,
                                  const AttentionOptions& options) {
  const Geometry g = packed_geometry(options.operation, query.shape(), key.shape(), value.dim(2), heads);
  return dispatch(query, key, value, g, options);
}

Array packed_attention_weights(const Array& queries, const Array& keys, Heads heads, const AttentionOptions& options) {
  const NoGrad quiet;
  const Tensor q(queries), k(keys);
  const DType dtype = promoted({q, k});
  const Geometry g = packed_geometry(options.operation, queries.shape(), keys.shape(), 0, heads);
  Array weights(g.weights_shape(), dtype);
  visit_floating(dtype, [&](auto tag) {
    using T = decltype(tag);
    const Tensor query = cast(q, dtype), key = cast(k, dtype);
    const Arguments<T> call(query, key, Tensor(), g, options);
    attention_weights(contiguous_weights<T>(weights, g), call.problem());
  });
  return weights;
}

}  // namespace qkv::ops
