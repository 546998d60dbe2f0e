// How an attention makes its scores, and of which normaliser: what attention layers and the blocks that hold them
// share.
#pragma once

#include "nn/basic.h"
#include "ops/attention/attention.h"

namespace qkv::nn {

enum class NormKind { layer, rms };
// "layer" or "rms"; messages name `owner` and its `argument`.
NormKind norm_named(const char* owner, const char* argument, const std::string& name);
const char* name_of(NormKind kind);
// Over the last `width` features; without an eps the kind's own.
std::shared_ptr<Norm> make_norm(NormKind kind, Index width, std::optional<double> eps = {}, bool bias = true);

// T5's: a number per head and bucket of distances, of which the first half holds one distance each and the others grow
// up to max_distance. Bidirectional: half of them are for keys behind the query; else those share bucket 0.
struct RelativeBias {
  Index num_buckets = 32, max_distance = 128;
  bool bidirectional = true;
  bool operator==(const RelativeBias&) const = default;
};

struct ScoreOptions {
  std::optional<std::pair<Index, Index>> window = {};
  double softcap = 0;
  bool alibi = false;
  std::optional<double> scale = {}, masked_value = {};
  bool sinks = false;
  std::optional<NormKind> qk_norm = {};
  std::optional<RelativeBias> relative_bias = {};
  bool operator==(const ScoreOptions&) const = default;
};

const ScoreOptions& checked(const char* layer, const ScoreOptions& options);
// Adds those that are not the defaults.
void add_config(Config& config, const ScoreOptions& options);
// Those that need no parameters.
void set_scores(ops::AttentionOptions& o, const ScoreOptions& options);

// int64 (Lq + Lk - 1,): the buckets of the distances from the last query, at `offset` + Lq - 1, to the first key, up to
// that from the first query to the last key.
Array distance_buckets(const RelativeBias& bias, Index queries, Index keys, Index offset);

}  // namespace qkv::nn
