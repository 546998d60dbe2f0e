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
  std::optional<double> qk_norm_eps = {};  // the kind's own
  std::optional<RelativeBias> relative_bias = {};
  std::optional<double> rotary_base = {};
  std::optional<Index> rotary_dim = {};  // of each head's features, the first of which turn; all
  ops::RotaryScaling rotary_scaling = {};
  ops::Normalizer normalizer = ops::Normalizer::softmax;
  bool operator==(const ScoreOptions&) const = default;
};

const ScoreOptions& checked(const char* layer, const ScoreOptions& options);
// The fields that are not the defaults.
Fields fields_of(const RelativeBias& bias);
Fields fields_of(const ops::RotaryScaling& scaling);
// Adds those that are not the defaults.
void add_config(Config& config, const ScoreOptions& options);
// Those that need no parameters.
void set_scores(ops::AttentionOptions& o, const ScoreOptions& options);

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

// int64 (Lq + Lk - 1,): the buckets of the distances from the last query, at `offset` + Lq - 1, to the first key, up to
// that from the first query to the last key.
Array distance_buckets(const RelativeBias& bias, Index queries, Index keys, Index offset);

}  // namespace qkv::nn
