#include "ops/attention/block.h"

#include "ops/attention/arguments.h"
#include "ops/attention/parallel.h"

namespace qkv::ops {
namespace {

template <class T>
AttentionBlock forward(const Array& query, const Array& key, const Array& value, const Geometry& g,
                       const AttentionOptions& options) {
  const Tensor q(query), k(key), v(value);
  const Arguments<T> call(q, k, v, g, options);
  AttentionBlock block{Array(g.output_shape(), dtype_v<T>), Array(Shape{g.batches, g.heads, g.queries, 2}, dtype_v<T>)};
  AttentionResult<T> result;
  result.out = g.view<T>(block.out.data<T>(), g.heads, g.queries, g.value_size);
  result.statistics = block.statistics.data<T>();
  attention_forward(result, call.problem());
  return block;
}

template <class T>
AttentionBlockGradients backward(const Array& dout, const Array& dlse, const AttentionBlock& whole, const Array& query,
                                 const Array& key, const Array& value, const Geometry& g,
                                 const AttentionOptions& options) {
  const Tensor q(query), k(key), v(value);
  const Arguments<T> call(q, k, v, g, options);
  AttentionSaved<T> saved;
  saved.dout = g.view<const T>(dout.data<T>(), g.heads, g.queries, g.value_size);
  saved.out = g.view<const T>(whole.out.data<T>(), g.heads, g.queries, g.value_size);
  saved.statistics = whole.statistics.data<T>();
  if (dlse.defined()) saved.dlse = dlse.data<T>();
  const auto zeros = [](const Array& x) { return Array::zeros(x.shape(), dtype_v<T>); };
  AttentionBlockGradients d{zeros(query), zeros(key), zeros(value), {}};
  AttentionGradients<T> gradients;
  gradients.dquery = g.view<T>(d.query.data<T>(), g.heads, g.queries, g.key_size);
  gradients.dkey = g.view<T>(d.key.data<T>(), g.kv_heads, g.keys, g.key_size);
  gradients.dvalue = g.view<T>(d.value.data<T>(), g.kv_heads, g.keys, g.value_size);
  if (options.attn_mask.defined() && is_floating(options.attn_mask.dtype())) {
    d.bias = Array::zeros(call.bias_shape(), dtype_v<T>);
    gradients.dbias = weights_view<T>(d.bias.data<T>(), call.bias_shape(), g);
  }
  attention_backward(gradients, saved, call.problem());
  return d;
}

}  // namespace

AttentionBlock attention_block(const Array& query, const Array& key, const Array& value,
                               const AttentionOptions& options) {
  const NoGrad quiet;
  const Geometry g = plain_geometry(query.shape(), key.shape(), value.shape(), options);
  return visit_floating(query.dtype(), [&](auto tag) {
    using T = decltype(tag);
    return forward<T>(query, key.cast(dtype_v<T>), value.cast(dtype_v<T>), g, options);
  });
}

AttentionBlockGradients attention_block_backward(const Array& dout, const Array& dlse, const AttentionBlock& whole,
                                                 const Array& query, const Array& key, const Array& value,
                                                 const AttentionOptions& options) {
  const NoGrad quiet;
  const Geometry g = plain_geometry(query.shape(), key.shape(), value.shape(), options);
  return visit_floating(query.dtype(), [&](auto tag) {
    using T = decltype(tag);
    return backward<T>(dout, dlse, whole, query, key.cast(dtype_v<T>), value.cast(dtype_v<T>), g, options);
  });
}

}  // namespace qkv::ops
