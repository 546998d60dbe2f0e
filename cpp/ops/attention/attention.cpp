// Scaled dot-product attention: the fused kernels and their gradients.
#include "ops/attention/attention.h"

#include <algorithm>
#include <array>

#include "ops/attention/arguments.h"
#include "ops/attention/block.h"
#include "ops/attention/composed.h"
#include "ops/attention/parallel.h"
#include "ops/ops.h"

namespace qkv::ops {
namespace {

template <class T> WeightsView<T> contiguous_weights(const Array& weights, const Geometry& g) {
  return {numbers<T>(weights), g.heads * g.queries * g.keys, g.queries * g.keys, g.keys, 1};
}

// What a forward pass gives; undefined where it was not asked for.
struct Results {
  Array out, weights, lse, statistics, averages;
};

template <class T> Results forward(const Arguments<T>& call, bool with_statistics) {
  const Geometry& g = call.geometry;
  const AttentionOptions& o = call.options;
  Results y{Array(g.output_shape(), dtype_v<T>), {}, {}, {}, {}};
  if (o.keep_layout) y.out = laid_out(y.out, call.query());
  if (o.return_weights) y.weights = Array(g.weights_shape(), dtype_v<T>);
  if (o.return_lse) y.lse = Array(g.lse_shape(), dtype_v<T>);
  if (with_statistics) y.statistics = Array(Shape{g.batches, g.heads, g.queries, 2}, dtype_v<T>);
  if (with_statistics && has_threshold(o.normalizer)) y.averages = Array(g.output_shape(), dtype_v<T>);
  AttentionResult<T> result;
  result.out = g.view<T>(y.out, g.heads, g.queries, g.value_size);
  result.weights = contiguous_weights<T>(y.weights, g);
  result.lse = numbers<T>(y.lse);
  result.statistics = numbers<T>(y.statistics);
  result.averages = g.view<T>(y.averages, g.heads, g.queries, g.value_size);
  attention_forward(result, call.problem());
  call.check_indices();
  return y;
}

// Adds the gradients of query, key, value, sinks and a formula's leaves to those arrays of d that are defined;
// `dy` are those of the results, and y the results themselves.
template <class T>
void backward(const Arguments<T>& call, const kernels::AttentionProblem<T>& problem, const Results& y,
              const Results& dy, const std::vector<Array>& d) {
  const Geometry& g = call.geometry;
  AttentionSaved<T> saved;
  saved.dout = g.view<const T>(dy.out, g.heads, g.queries, g.value_size);
  saved.out = g.view<const T>(y.out, g.heads, g.queries, g.value_size);
  saved.statistics = y.statistics.data<T>();
  saved.dweights = contiguous_weights<const T>(dy.weights, g);
  saved.dlse = numbers<T>(dy.lse);

  AttentionGradients<T> gradients;
  gradients.dquery = g.view<T>(d[0], g.heads, g.queries, g.key_size);
  gradients.dkey = g.view<T>(d[1], g.kv_heads, g.key_rows, g.key_size);
  gradients.dvalue = g.view<T>(d[2], g.kv_heads, g.key_rows, g.value_size);
  gradients.dsinks = numbers<T>(d[3]);
  std::vector<kernels::LeafGradient<T>> leaves;
  for (std::size_t i = call.kLeaves; i < d.size(); ++i) {
    kernels::LeafGradient<T>& leaf = leaves.emplace_back();
    if (!d[i].defined()) continue;
    leaf.data = d[i].data<T>();
    if (problem.formula->leaves[i - call.kLeaves].level == LeafLevel::table) continue;
    const Index line = d[i].numel() / std::max<Index>(1, d[i].dim(0) * d[i].dim(1));
    leaf.head = d[i].dim(1) == 1 ? 0 : line;
    leaf.batch = d[i].dim(0) == 1 ? 0 : d[i].dim(1) * line;
  }
  const auto wanted = [](const kernels::LeafGradient<T>& leaf) { return leaf.data != nullptr; };
  if (std::any_of(leaves.begin(), leaves.end(), wanted)) gradients.dleaves = leaves.data();
  attention_backward(gradients, saved, problem);
}

// What the backward pass of a recorded call needs; of normalisers with a threshold the averages as `out`.
template <class T> struct Recorded {
  Arguments<T> arguments;
  Saved out, statistics;
};

template <class T> void pull_back(const Recorded<T>& recorded, std::span<const Array> dys, Gradients& dx) {
  const Arguments<T>& call = recorded.arguments;
  const auto packed_or_none = [](const Array& x) { return x.defined() ? packed(x) : x; };
  Results dy;
  dy.out = dys[0].defined() ? with_rows(dys[0]) : Array::zeros(call.geometry.output_shape(), dtype_v<T>);
  if (call.options.return_weights) dy.weights = packed_or_none(dys[1]);
  if (call.options.return_lse) dy.lse = packed_or_none(dys.back());
  const std::array<Array, 3> inputs{dx.input(0), dx.input(1), dx.input(2)};
  std::vector<Array> d(call.inputs());
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (!dx.wants(static_cast<Index>(i))) continue;
    Array& to = d[i] = dx.of(static_cast<Index>(i));
    if (i < inputs.size()) dx.results()[i] = to = laid_out(to, inputs[i]);
  }
  backward(call, call.problem(inputs[0], inputs[1], inputs[2]),
           {recorded.out.get(), {}, {}, recorded.statistics.get(), {}}, dy, d);
}

template <class T> struct PullBack {
  static constexpr bool kReadsStrides = true;
  std::shared_ptr<const Recorded<T>> recorded;
  void operator()(std::span<const Array> dys, Gradients& dx) const { pull_back(*recorded, dys, dx); }
};

template <class T>
AttentionOutputs run(const Tensor& q, const Tensor& k, const Tensor& v, const Geometry& g, const AttentionOptions& o) {
  Arguments<T> call(q, k, v, g, o);
  const auto outputs = [&](const Tensors& results) -> AttentionOutputs {
    return {results[0], o.return_weights ? results[1] : Tensor(), o.return_lse ? results.back() : Tensor()};
  };
  if (o.changes != nullptr)
    return outputs(composed_attention(call, call.records ? call.take_inputs() : Tensors{q, k, v, {}}));
  Results y = forward(call, call.records);
  const auto shown = [](Array& x) { return x.defined() ? Tensor(std::move(x)) : Tensor(); };
  if (!call.records) return {Tensor(std::move(y.out)), shown(y.weights), shown(y.lse)};
  Tensors inputs = call.take_inputs();
  const Saved out(Tensor(y.averages.defined() ? y.averages : y.out));
  const auto kept = std::make_shared<const Recorded<T>>(Recorded<T>{std::move(call), out, Saved(y.statistics)});
  std::vector<Array> results{std::move(y.out)};
  if (o.return_weights) results.push_back(std::move(y.weights));
  if (o.return_lse) results.push_back(std::move(y.lse));
  return outputs(record_many(std::move(results), std::move(inputs), PullBack<T>{kept},
                             [kept](std::span<const Tensor> dys, TensorGradients& dx) {
                               derive_composed(dys, dx, [&](const Tensors& given) {
                                 return composed_attention(kept->arguments, given);
                               });
                             }));
}

// Inlined, for a shorter way from a call to its loop.
inline __attribute__((always_inline)) AttentionOutputs dispatch(const Tensor& query, const Tensor& key,
                                                                const Tensor& value, const Geometry& g,
                                                                const AttentionOptions& o) {
  const DType dtype = promoted({query, key, value});
  const auto compute = dtype == DType::float64 ? run<double> : run<float>;
  if (query.dtype() == dtype && key.dtype() == dtype && value.dtype() == dtype) return compute(query, key, value, g, o);
  return compute(cast(query, dtype), cast(key, dtype), cast(value, dtype), g, o);
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
  AttentionOptions weights = options;
  weights.return_weights = true;
  return with_packed_call(queries, keys, heads, weights,
                          [](const auto& call, const Tensors&) { return forward(call, false).weights; });
}

Array packed_attention_scores(const Array& queries, const Array& keys, Heads heads, const AttentionOptions& options) {
  return with_packed_call(queries, keys, heads, options,
                          [](const auto& call, const Tensors& inputs) { return composed_scores(call, inputs).data(); });
}

AttentionBlock attention_block(const Array& query, const Array& key, const Array& value,
                               const AttentionOptions& options) {
  const NoGrad quiet;
  const Geometry g = plain_geometry(query.shape(), key.shape(), value.shape(), options);
  return visit_floating(query.dtype(), [&]<class T>(T) {
    const Results y = forward(
        Arguments<T>(Tensor(query), Tensor(key.cast(dtype_v<T>)), Tensor(value.cast(dtype_v<T>)), g, options), true);
    return AttentionBlock{y.out, y.statistics};
  });
}

AttentionBlockGradients attention_block_backward(const Array& dout, const Array& dlse, const AttentionBlock& whole,
                                                 const Array& query, const Array& key, const Array& value,
                                                 const AttentionOptions& options) {
  const NoGrad quiet;
  const Geometry g = plain_geometry(query.shape(), key.shape(), value.shape(), options);
  return visit_floating(query.dtype(), [&]<class T>(T) {
    const Arguments<T> call(Tensor(query), Tensor(key.cast(dtype_v<T>)), Tensor(value.cast(dtype_v<T>)), g, options,
                            true);
    const auto zeros = [](const Shape& shape) { return Array::zeros(shape, dtype_v<T>); };
    const auto like = [&](const Array& x) { return laid_out(zeros(x.shape()), x); };
    AttentionBlockGradients d{like(query), like(key), like(value), {}};
    std::vector<Array> all{d.query, d.key, d.value};
    all.resize(call.inputs());
    Array bias;
    if (call.bias()) {
      const std::size_t leaf = call.bias()->leaf;
      bias = all[call.kLeaves + leaf] = zeros(call.options.formula->leaves[leaf].shape());
    }
    backward(call, call.problem(), {with_rows(whole.out), {}, {}, whole.statistics, {}},
             {with_rows(dout), {}, dlse, {}, {}}, all);
    if (bias.defined()) d.bias = bias.reshaped(call.bias()->places.shape);
    return d;
  });
}

}  // namespace qkv::ops
