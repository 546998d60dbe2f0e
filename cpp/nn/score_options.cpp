#include "nn/score_options.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/numbers.h"

namespace qkv::nn {
namespace {

// In float32, as Hugging Face computes them.
Index bucket_of(const RelativeBias& bias, Index distance) {
  const Index count = bias.bidirectional ? bias.num_buckets / 2 : bias.num_buckets, exact = count / 2;
  const Index first = bias.bidirectional && distance > 0 ? count : 0;
  const Index steps = bias.bidirectional ? std::abs(distance) : std::max<Index>(-distance, 0);
  if (steps < exact) return first + steps;
  const auto ratio = [exact](Index length) { return static_cast<double>(length) / static_cast<double>(exact); };
  const float part = static_cast<float>(ops::log_of(static_cast<double>(static_cast<float>(ratio(steps))))) /
                     static_cast<float>(ops::log_of(ratio(bias.max_distance)));
  return first + std::min(exact + static_cast<Index>(part * static_cast<float>(count - exact)), count - 1);
}

}  // namespace

NormKind norm_named(const char* owner, const char* argument, const std::string& name) {
  if (name == "layer") return NormKind::layer;
  if (name != "rms") fail_value(owner, ": ", argument, " must be \"layer\" or \"rms\"; got \"", name, "\"");
  return NormKind::rms;
}

const char* name_of(NormKind kind) { return kind == NormKind::rms ? "rms" : "layer"; }

std::shared_ptr<Norm> make_norm(NormKind kind, Index width, std::optional<double> eps, bool bias) {
  if (kind == NormKind::rms) return std::make_shared<RMSNorm>(Shape{width}, eps.value_or(1e-6));
  return std::make_shared<LayerNorm>(Shape{width}, eps.value_or(1e-5), true, bias);
}

const ScoreOptions& checked(const char* layer, const ScoreOptions& o) {
  ops::checked(layer, static_cast<const ops::SharedOptions&>(o));
  if (o.rotary_base && !(*o.rotary_base > 0 && std::isfinite(*o.rotary_base)))
    fail_value(layer, ": rotary_base must be a positive number; got ", *o.rotary_base);
  if (!o.rotary_base && (o.rotary_dim || o.rotary_scaling != ops::RotaryScaling()))
    fail_value(layer, ": rotary_base must be given because rotary_dim and rotary_scaling are about it; got None");
  if (o.rotary_dim && (*o.rotary_dim < 2 || *o.rotary_dim % 2 != 0))
    fail_value(layer, ": rotary_dim must be even and at least 2 because rotary positions turn pairs of features; got ",
               *o.rotary_dim);
  ops::checked(layer, o.rotary_scaling);
  if (o.sinks && o.normalizer != ops::Normalizer::softmax)
    fail_value(layer, ": sinks must be False because they belong to the sum of a softmax; got True with normalizer \"",
               ops::name_of(o.normalizer), "\"");
  if (!o.relative_bias) return o;
  const RelativeBias& bias = *o.relative_bias;
  const Index sides = bias.bidirectional ? 2 : 1;
  if (bias.num_buckets < 2 * sides || bias.num_buckets % sides != 0)
    fail_value(layer, ": relative_bias must have a num_buckets of at least ", 2 * sides,
               bias.bidirectional ? ", which is even because half of them are for keys behind the query" : "", "; got ",
               bias.num_buckets);
  if (bias.max_distance <= bias.num_buckets / sides / 2)
    fail_value(layer, ": relative_bias must have a max_distance above ", bias.num_buckets / sides / 2,
               ", the distances that have a bucket each; got ", bias.max_distance);
  return o;
}

Value value_of(const RelativeBias& bias) {
  return Fields{
      {"num_buckets", bias.num_buckets}, {"max_distance", bias.max_distance}, {"bidirectional", bias.bidirectional}};
}

Value value_of(const ops::RotaryScaling& scaling) {
  if (scaling == ops::RotaryScaling()) return {};
  Fields fields;
  for_fields(scaling, [&]<class T>(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, ops::RotaryScaling::Kind>)
      fields.emplace_back(name, std::string(ops::name_of(value)));
    else if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (value) fields.emplace_back(name, *value);
    } else fields.emplace_back(name, value);
  });
  return fields;
}

std::pair<Array, Array> RotaryTables::of(const Array& positions, Index dim, const ScoreOptions& o, DType dtype) {
  for (const Entry& e : entries_)
    if (e.count == positions.numel() && e.dim == dim && e.base == *o.rotary_base && e.scaling == o.rotary_scaling &&
        e.dtype == dtype)
      return e.tables;
  const auto [cos, sin] = ops::rotary_tables(positions, dim, *o.rotary_base, o.rotary_scaling);
  Shape shape = cos.shape();
  shape.insert(shape.end() - 1, 1);
  entries_.push_back({positions.numel(),
                      dim,
                      *o.rotary_base,
                      o.rotary_scaling,
                      dtype,
                      {cos.reshaped(shape).cast(dtype), sin.reshaped(shape).cast(dtype)}});
  return entries_.back().tables;
}

Array distance_buckets(const RelativeBias& bias, Index queries, Index keys, Index offset) {
  Array buckets(Shape{std::max<Index>(queries + keys - 1, 0)}, DType::int64);
  for (Index i = 0; i < buckets.numel(); ++i) buckets.data<std::int64_t>()[i] = bucket_of(bias, keys - 1 - i - offset);
  return buckets;
}

}  // namespace qkv::nn
