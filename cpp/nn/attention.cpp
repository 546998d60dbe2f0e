#include "nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "nn/score_options.h"
#include "nn/watched_attention.h"
#include "ops/attention/allowed.h"
#include "ops/attention/formula/formula.h"
#include "ops/attention/geometry.h"
#include "ops/attention/normalizer.h"
#include "ops/ops.h"

namespace qkv::nn {

thread_local bool NoAttentionRecord::active_ = false;

namespace {

using Kept = AttentionRecord::Kept;

Array shown(const Array& weights, AttentionRecord::Axes axes) {
  Shape shape = weights.shape();
  if (shape.rank() == 4 && !axes.heads) shape.erase(shape.begin() + 1);
  if (!axes.batch) shape.erase(shape.begin());
  return weights.reshaped(shape);
}

struct KeptWeights : Kept {
  explicit KeptWeights(Array given) : shown(std::move(given)) {}
  Array weights() const override { return shown; }
  Shape shape() const override { return whole().shape(); }
  Array measures(const ops::MeasureInputs& inputs) const override { return ops::measures_of(whole(), inputs); }
  Array image(const ops::ImageOptions& image) const override { return ops::image_of(whole(), image); }
  Array rows(const ops::HeadRows& rows) const override { return ops::rows_of(whole(), rows); }
  // With the axes that are not shown.
  Array whole() const {
    Shape shape = shown.shape();
    while (shape.rank() < 4) shape.insert(shape.begin(), 1);
    return shown.reshaped(shape);
  }
  const Array shown;
};

struct KeptProjections : Kept {
  KeptProjections(const Array& q, const Array& k, ops::Heads h, ops::AttentionOptions o, AttentionRecord::Axes a)
      : query(q), key(k), heads(h), options(std::move(o)), axes(a) {}
  Array weights() const override { return shown(ops::packed_attention_weights(query, key, heads, options), axes); }
  Array scores() const override { return shown(ops::packed_attention_scores(query, key, heads, options), axes); }
  Shape shape() const override {
    return {query.dim(0), heads.query_heads, query.dim(1), heads.length < 0 ? key.dim(1) : heads.length};
  }
  Array measures(const ops::MeasureInputs& inputs) const override {
    return ops::packed_attention_measures(query, key, heads, options, inputs);
  }
  Array image(const ops::ImageOptions& image) const override {
    return ops::packed_attention_image(query, key, heads, options, image);
  }
  Array rows(const ops::HeadRows& rows) const override {
    return ops::packed_attention_rows(query, key, heads, options, rows);
  }
  Index offset() const override {
    const Array& offsets = options.q_offset;
    return offsets.defined() && offsets.numel() > 0 ? static_cast<Index>(offsets.data<std::int64_t>()[0]) : 0;
  }
  Array real_keys() const override { return ops::unpadded(options, shape()); }
  const Array query, key;
  const ops::Heads heads;
  const ops::AttentionOptions options;
  const AttentionRecord::Axes axes;
};

// Memory of the caller's may change before the weights are read.
Array own(const Array& array) { return array.defined() && !array.buffer()->own() ? cloned(array) : packed(array); }

}  // namespace

Value value_of(ops::Causal causal) {
  if (causal == ops::Causal::lower_right) return std::string("lower_right");
  return causal == ops::Causal::upper_left;
}

Array snapshot(const Array& array) { return array.defined() && !NoAttentionRecord::active() ? cloned(array) : array; }

std::shared_ptr<const Kept> AttentionRecord::of(const Array& query, const Array& key, ops::Heads heads,
                                                ops::AttentionOptions options, Axes axes) {
  return NoAttentionRecord::active() ? nullptr : always_of(query, key, heads, std::move(options), axes);
}

std::shared_ptr<const Kept> AttentionRecord::always_of(const Array& query, const Array& key, ops::Heads heads,
                                                       ops::AttentionOptions options, Axes axes) {
  for (Array* x : {&options.valid_lens, &options.q_offset})
    if (x->defined()) *x = own(*x);
  for (Tensor* x : {&options.attn_mask, &options.alibi_slopes})
    if (x->defined()) *x = Tensor(own(x->data()));
  if (options.sinks.defined()) options.sinks = Tensor(cloned(options.sinks.data()));
  if (options.distance_bias.defined()) options.distance_bias = Tensor(cloned(options.distance_bias.data()));
  if (options.formula != nullptr) {  // without its history
    auto formula = std::make_shared<ops::Formula>(*options.formula);
    for (Tensor& leaf : formula->leaves) leaf = leaf.detach();
    options.formula = std::move(formula);
  }
  options.dropout = 0;  // shown before dropout
  options.return_weights = false;
  options.dropout_keep = {};
  options.dropout_key = {};
  return std::make_shared<const KeptProjections>(query, key, heads, std::move(options), axes);
}

std::shared_ptr<const Kept> AttentionRecord::of_call(const Tensor& query, const Tensor& key,
                                                     ops::AttentionOptions options) {
  const NoGrad quiet;
  Shape values = key.shape();
  if (!values.empty()) values.back() = 0;
  const ops::Geometry g = ops::plain_geometry(query.shape(), key.shape(), values, options);
  const auto side_by_side = [&](const Tensor& x, Index heads, Index rows) {
    const Tensor by_position = ops::swapaxes(ops::reshape(x.detach(), {g.batches, heads, rows, g.key_size}), 1, 2);
    return cloned(by_position.data()).reshaped({g.batches, rows, heads * g.key_size});
  };
  if (Tensor& mask = options.attn_mask; mask.defined()) {
    mask = Tensor(without_repeats(mask.data()));
    if (g.rank == 4 && mask.rank() == 3) mask = ops::reshape(mask, {1, mask.dim(0), mask.dim(1), mask.dim(2)});
  }
  if (const Array& lengths = options.valid_lens;
      g.rank == 2 && lengths.defined() && lengths.shape() == Shape{g.queries})
    options.valid_lens = lengths.reshaped({1, g.queries});
  return always_of(side_by_side(query, g.heads, g.queries), side_by_side(key, g.kv_heads, g.keys),
                   {g.heads, g.kv_heads, -1}, std::move(options), {g.rank > 2, g.rank == 4});
}

std::shared_ptr<const Kept> AttentionRecord::of(const Array& weights, Axes axes) {
  if (NoAttentionRecord::active() || !weights.defined()) return nullptr;
  return std::make_shared<const KeptWeights>(shown(own(weights), axes));
}

Array AttentionRecord::weights() const {
  const std::shared_ptr<const Kept> kept = kept_.get();
  if (!kept) return {};
  Array weights = kept->weights();
  // The next reader finds them computed.
  if (dynamic_cast<const KeptWeights*>(kept.get()) == nullptr)
    kept_.replace(kept, std::make_shared<const KeptWeights>(weights));
  return weights;
}

Attention::Attention(AttentionArguments a) : arguments(std::move(a)) {
  checked_probability("Attention", "dropout", arguments.dropout);
  if (arguments.masked_value && std::isnan(*arguments.masked_value))
    fail_value("Attention: masked_value must be a number; got nan");
  check_positive("Attention", {{"num_heads", arguments.num_heads}});
}

Config Attention::config() const {
  Config config = config_of(arguments);
  if (arguments.normalizer.kind == ops::Normalizer::softmax) config.pop_back();
  return config;
}

ops::AttentionOptions Attention::options(const Call& call) const {
  ops::AttentionOptions o;
  o.operation = "Attention";
  set_mask_spec(o, call.mask_spec, arguments.dropout, training());
  o.causal = call.causal.value_or(arguments.causal);
  o.window = arguments.window;
  o.masked_value = arguments.masked_value;
  o.normalizer = arguments.normalizer.kind;
  o.return_weights = call.weights != nullptr;
  return o;
}

Attention::Inputs Attention::checked_inputs(const Tensor& queries, const Tensor& keys, const Tensor& values) const {
  const bool alone = queries.rank() == 2 && keys.rank() == 2 && values.rank() == 2;
  const auto lifted = [alone](const Tensor& x) { return alone ? ops::reshape(x, {1, x.dim(0), x.dim(1)}) : x; };
  const auto check = [&](const char* name, const Tensor& x) {
    if (!alone && x.rank() != 3)
      fail_value(class_name(), ": ", name, " must be (B, L, M), or all three (L, M); got ", name, " ", x.shape());
    if (!alone && x.dim(0) != queries.dim(0))
      fail_value(class_name(), ": ", name, " must have the batch size of queries ", queries.shape(), "; got ", name,
                 " ", x.shape());
  };
  check("queries", queries);
  check("keys", keys);
  check("values", values);
  if (keys.dim(-2) != values.dim(-2))
    fail_value(class_name(), ": values must be (B, Lk, Dv) with Lk = ", keys.dim(-2), " to match keys ", keys.shape(),
               "; got values ", values.shape());
  return {lifted(queries), lifted(keys), lifted(values), alone};
}

Tensor Attention::split(const char* name, const Tensor& x) const {
  if (!arguments.num_heads) return x;
  if (x.dim(2) % heads() != 0)
    fail_value(class_name(), ": ", name, " must be (B, L, M) with M divisible by num_heads = ", heads(), "; got ", name,
               " ", x.shape());
  return ops::swapaxes(ops::reshape(x, {x.dim(0), x.dim(1), heads(), x.dim(2) / heads()}), 1, 2);
}

Tensor Attention::joined(const Tensor& x) const {
  if (!arguments.num_heads) return x;
  return ops::reshape(ops::swapaxes(x, 1, 2), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

void Attention::prepare(const Tensor&, const Tensor&, const Tensor&) {}

Tensor Attention::score(const Tensor&, const Tensor&) {
  fail_runtime("Attention: score(queries, keys) must be defined by a subclass; it gives (B, Lq, Lk)");
}

Tensor Attention::forward(const Tensor& queries, const Tensor& given_keys, const Tensor& given_values,
                          const Call& call) {
  if (const Observed seen(*this); seen)
    return seen.call(queries, [&](const Tensor& y) { return Attention::forward(y, given_keys, given_values, call); });
  const Tensor& keys = given_keys.defined() ? given_keys : queries;
  const Tensor& values = given_values.defined() ? given_values : keys;
  if (call.cache != nullptr) {  // the layer is called on all inputs so far
    Call whole = call;
    whole.cache = nullptr;
    return behind_inputs(class_name(), *call.cache, queries,
                         [&](const Tensor& all) { return forward(all, all, all, whole); });
  }
  const auto [q, k, v, alone] = checked_inputs(queries, keys, values);
  const AttentionRecord::Axes axes{!alone, arguments.num_heads.has_value()};
  Shape weights{q.dim(0), q.dim(1), k.dim(1)};
  if (axes.heads) weights.insert(weights.begin() + 1, heads());
  Call aligned_call = call;
  aligned_call.mask_spec = aligned(class_name().c_str(), call.mask_spec, weights, axes);
  const AttentionRecord::Capture own(&record);
  const ops::AttentionOptions o = options(aligned_call);
  const ops::AttentionOutputs outputs =
      arguments.normalizer.own ? Attention::attend(q, k, v, o, axes) : attend(q, k, v, o, axes);
  if (call.weights != nullptr) *call.weights = shown_weights(outputs.weights, axes);
  if (call.record != nullptr) call.record->keep(own.kept());
  return unbatched(outputs.output, alone);
}

ops::AttentionOutputs Attention::attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                                        const ops::AttentionOptions& options, AttentionRecord::Axes axes) {
  const Watched watch(*this, axes);
  const Tensor q = watch.through(Point::queries, split("queries", queries)),
               k = watch.through(Point::keys, split("keys", keys)),
               v = watch.through(Point::values, split("values", values));
  const Tensor scores = score(q, k);
  Shape expected{queries.dim(0), queries.dim(1), keys.dim(1)};
  if (arguments.num_heads) expected.insert(expected.begin() + 1, heads());
  if (!scores.defined() || scores.shape() != expected)
    fail_value(class_name(), ": score(queries, keys) must give ",
               arguments.num_heads ? "(B, H, Lq, Lk) = " : "(B, Lq, Lk) = ", expected, "; got ",
               scores.defined() ? scores.shape().str() : "None",
               !arguments.num_heads && scores.defined() && scores.rank() == 4
                   ? "; the constructor's num_heads gives queries, keys and scores an axis of heads"
                   : "");
  ops::AttentionOutputs outputs = watch.composed(
      options, [&] { return scores; },
      [&](const ops::AttentionOptions& o) {
        return own_steps() ? pooled_by_steps(scores, v, o) : ops::composed_attention(scores, v, o);
      });
  record.keep(AttentionRecord::of(outputs.weights.data(), {axes.batch, true}));
  outputs.output = joined(watch.through(Point::heads, outputs.output));
  return outputs;
}

Tensor Attention::normalize(const Tensor& scores, const Tensor& allowed) {
  const Tensor all = allowed.defined() ? allowed : Tensor(Array::full({1}, DType::boolean, 1));
  const Tensor open = packed(ops::broadcast_to(all, scores.shape()));
  if (arguments.normalizer.own) {
    const Tensor none = ops::scalar_like(scores, -std::numeric_limits<double>::infinity());
    return arguments.normalizer.own->weights(allowed.defined() ? ops::where(open, scores, none) : scores);
  }
  return ops::normalized(arguments.normalizer.kind, scores, open);
}

Tensor Attention::pool(const Tensor& weights, const Tensor& values) {
  const DType dtype = ops::promoted({weights, values});
  return ops::weighted_values(ops::cast(weights, dtype), ops::cast(values, dtype));
}

ops::AttentionOutputs Attention::pooled_by_steps(const Tensor& given, const Tensor& values,
                                                 const ops::AttentionOptions& options) {
  const DType dtype = ops::promoted({given, values});
  const Array pairs = ops::Allowed(given.shape(), dtype, options).array();
  const bool all = std::all_of(pairs.data<bool>(), pairs.data<bool>() + pairs.numel(), [](bool open) { return open; });
  const Tensor allowed = all || options.masked_value ? Tensor() : Tensor(pairs);
  Tensor scores = ops::cast(given, dtype);
  if (options.changes != nullptr) scores = options.changes->scores(ops::final_scores(scores, options));
  else if (options.has_bias()) scores = ops::with_bias(scores, options.attn_mask);
  // What is in excluded places, such as NaN of padding, is ignored by the normaliser.
  if (!all) scores = ops::where(Tensor(pairs), scores, ops::scalar_like(scores, options.masked_value.value_or(0)));
  Tensor weights = normalize(scores, allowed);
  if (weights.shape() != scores.shape())
    fail_value(class_name(), arguments.normalizer.own ? ": normalizer(scores)" : ": normalize(scores, allowed)",
               " must keep the shape ", scores.shape(), " of the scores; got ", weights.shape());
  if (allowed.defined()) weights = ops::where(allowed, weights, ops::scalar_like(weights, 0));
  if (options.changes != nullptr) weights = options.changes->weights(weights);
  const ops::WeightDropout dropout = ops::weight_dropout(options, weights.shape());
  Tensor used = weights;
  if (dropout.p > 0)
    used = ops::multiply(used, Tensor(ops::dropped(Array::full(weights.shape(), weights.dtype(), 1), dropout)));
  return {pool(used, values), weights};
}

Batched batched(const char* layer, const char* name, const Tensor& x) {
  if (x.rank() == 3) return {x, false};
  if (x.rank() != 2) fail_value(layer, ": ", name, " must be (B, L, M) or (L, M); got ", name, " ", x.shape());
  return {ops::reshape(x, {1, x.dim(0), x.dim(1)}), true};
}

Tensor unbatched(const Tensor& y, bool added) {
  return added ? ops::reshape(y, Shape(y.shape().begin() + 1, y.shape().end())) : y;
}

namespace {

// The shape of a mask with the axes of the weights; `name` is what a message calls it.
Shape aligned_mask(const char* layer, const char* name, const Shape& given, const Shape& weights,
                   AttentionRecord::Axes axes) {
  Shape shape = given;
  if (axes.heads && shape.rank() == 3) shape.insert(shape.begin() + (axes.batch ? 1 : 0), 1);
  if (!axes.heads && shape.rank() == 4 && shape[1] == 1) shape.erase(shape.begin() + 1);
  Shape common;
  if (weights.back() < 0 || (broadcast(shape, weights, common) && common == weights)) return shape;
  if (axes.batch) ops::check_broadcasts(layer, name, shape, weights, given);
  const Index queries = weights.dim(-2), keys = weights.dim(-1);
  fail_value(layer, ": ", name, " must be (Lq, Lk) = ", Shape{queries, keys},
             axes.heads ? text(" or (H, Lq, Lk) = ", Shape{weights.dim(1), queries, keys}) : "",
             " because the input has no batch axis; got ", name, " ", given);
}

}  // namespace

void set_mask_spec(ops::AttentionOptions& o, MaskSpec mask_spec, double dropout, bool training) {
  static_cast<MaskSpec&>(o) = std::move(mask_spec);
  const bool given = o.dropout_keep.defined();
  if (given && dropout == 0)
    fail_value(o.operation, ": dropout must be above 0 because dropout_keep stands for its draw; got dropout = 0");
  o.dropout = training || given ? dropout : 0;
}

MaskSpec aligned(const char* layer, const MaskSpec& mask_spec, const Shape& weights, AttentionRecord::Axes axes) {
  MaskSpec r = mask_spec;
  const Index queries = weights.dim(-2);
  if (const Array& lens = r.valid_lens;
      !axes.batch && lens.defined() && lens.shape() != Shape{1} && lens.shape() != Shape{1, queries}) {
    if (lens.rank() > 0 && lens.shape() != Shape{queries})
      fail_value(layer, ": ", r.names.valid_lens, " must be one number or (Lq,) = (", queries,
                 ",) because the input has no batch axis; got ", r.names.valid_lens, " ", lens.shape());
    r.valid_lens = lens.reshaped(lens.rank() == 0 ? Shape{1} : Shape{1, queries});
  }
  if (const Tensor& mask = r.attn_mask; mask.defined()) {
    const Shape shape = aligned_mask(layer, r.names.attn_mask, mask.shape(), weights, axes);
    if (shape != mask.shape()) r.attn_mask = ops::reshape(mask, shape);
  }
  if (const Array& keep = r.dropout_keep; keep.defined())
    r.dropout_keep = keep.reshaped(aligned_mask(layer, "dropout_keep", keep.shape(), weights, axes));
  return r;
}

Tensor shown_weights(const Tensor& weights, AttentionRecord::Axes axes) {
  Shape shape = weights.shape();
  if (shape.rank() == 4 && !axes.heads) shape.erase(shape.begin() + 1);
  if (!axes.batch) shape.erase(shape.begin());
  return shape == weights.shape() ? weights : ops::reshape(weights, shape);
}

}  // namespace qkv::nn
