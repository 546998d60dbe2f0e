// How an attention makes its scores, and of which normaliser: what attention layers and the blocks that hold them
// share.
#pragma once

#include "nn/basic.h"
#include "ops/attention/attention.h"
#include "ops/position_tables.h"

namespace qkv::nn {

enum class NormKind { layer, rms };
// "layer" or "rms"; messages name `owner` and its `argument`.
NormKind norm_named(const char* owner, const char* argument, const std::string& name);
const char* name_of(NormKind kind);
// Over the last `width` features; without an eps the kind's own.
std::shared_ptr<Norm> make_norm(NormKind kind, Index width, std::optional<double> eps = {}, bool bias = true);

// T5's: a number per head and bucket of distances, of which the first half holds one distance each and the others grow
// up to max_distance. Bidirectional: half of them are for keys after the query; else those share bucket 0.
struct RelativeBias {
  Index num_buckets = 32, max_distance = 128;
  bool bidirectional = true;
  bool operator==(const RelativeBias&) const = default;
};

struct ScoreOptions : ops::SharedOptions {
  bool alibi = false;
  bool sinks = false;
  std::optional<NormKind> qk_norm = {};
  std::optional<double> qk_norm_eps = {};  // the kind's own
  std::optional<RelativeBias> relative_bias = {};
  std::optional<double> rotary_base = {};
  std::optional<Index> rotary_dim = {};  // of each head's features, the first of which turn; all
  ops::RotaryScaling rotary_scaling = {};
  bool operator==(const ScoreOptions&) const = default;
};

template <FieldsOf<ScoreOptions> Options, class F> void for_fields(Options& o, F field) {
  std::conditional_t<std::is_const_v<Options>, const ops::SharedOptions, ops::SharedOptions>& shared = o;
  for_fields(shared, field);
  field("alibi", o.alibi);
  field("sinks", o.sinks);
  field("qk_norm", o.qk_norm);
  field("relative_bias", o.relative_bias);
  field("rotary_base", o.rotary_base);
  field("rotary_dim", o.rotary_dim);
  field("rotary_scaling", o.rotary_scaling);
}
const ScoreOptions& checked(const char* layer, const ScoreOptions& options);

inline Value value_of(NormKind kind) { return std::string(name_of(kind)); }
inline Value value_of(ops::Normalizer normalizer) { return std::string(ops::name_of(normalizer)); }
// "upper_left" and True are one; "lower_right" the other; False is none.
Value value_of(ops::Causal causal);
Value value_of(const RelativeBias& bias);
Value value_of(const ops::RotaryScaling& scaling);  // None where nothing is scaled
// All fields of options, or those that differ from the defaults.
template <class Options> Config config_of(const Options& options) {
  Config config;
  for_fields(options, [&](const char* name, const auto& value) { config.emplace_back(name, value_of(value)); });
  return config;
}
template <class Options> void add_differing(Config& config, const Options& options, const Options& defaults = {}) {
  const Config all = config_of(options), standard = config_of(defaults);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != standard[i]) config.push_back(all[i]);
}
// Cosines and sines of rotary positions, which the layers of one call of a model compute once. By one thread.
class RotaryTables {
 public:
  // Those of positions (L,) or (B, L), as (L, 1, R / 2) or (B, L, 1, R / 2), for heads side by side. So many positions
  // are always the same.
  std::pair<Array, Array> of(const Array& positions, Index dim, const ScoreOptions& options, DType dtype);

 private:
  struct Entry {
    Index count, dim;
    double base;
    ops::RotaryScaling scaling;
    DType dtype;
    std::pair<Array, Array> tables;
  };
  std::vector<Entry> entries_;
};

// int64 (Lq + Lk - 1,): the buckets of the distances from the first query, at `offset`, to the last key, down to that
// from the last query to the first key.
Array distance_buckets(const RelativeBias& bias, Index queries, Index keys, Index offset);

}  // namespace qkv::nn
