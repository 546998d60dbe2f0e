// Tables of positions, in float64: a caller rounds it once to the dtype it computes in.
#pragma once

#include <optional>
#include <utility>

#include "core/array.h"

namespace qkv::ops {

// int64 (count,): first, first + 1, ...
Array consecutive(Index first, Index count);
// (max_len, dim): sin(i w_j) in column 2j, cos(i w_j) in column 2j + 1, w_j = base^(-2j / dim).
Array sinusoidal_positions(Index max_len, Index dim, double base);
// R (dim, dim), dim even, with P[i + offset] = R P[i] for every row i of that table.
Array relative_rotation(Index offset, Index dim, double base);
// How frequencies w_j change for sequences longer than those that a model was trained on, by Hugging Face's names.
struct RotaryScaling {
  enum class Kind { none, linear, dynamic, yarn, llama3 };
  Kind rope_type = Kind::none;
  double factor = 1;                                               // of the length
  std::optional<double> original_max_position_embeddings;          // the length in training; linear needs none
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn: of cosines and sines
  double beta_fast = 32, beta_slow = 1;                            // yarn: turns in that length between which it blends
  bool truncate = true;                                            // yarn: those in whole features
  double low_freq_factor = 1, high_freq_factor = 4;                // llama3: the same in that length over wavelengths
  bool operator==(const RotaryScaling&) const = default;
};
template <class Scaling, class F> void for_fields(Scaling& s, F field) {
  field("rope_type", s.rope_type);
  field("factor", s.factor);
  field("original_max_position_embeddings", s.original_max_position_embeddings);
  field("attention_factor", s.attention_factor);
  field("mscale", s.mscale);
  field("mscale_all_dim", s.mscale_all_dim);
  field("beta_fast", s.beta_fast);
  field("beta_slow", s.beta_slow);
  field("truncate", s.truncate);
  field("low_freq_factor", s.low_freq_factor);
  field("high_freq_factor", s.high_freq_factor);
}
const char* name_of(RotaryScaling::Kind kind);
RotaryScaling::Kind rotary_scaling_named(const char* operation, const std::string& name);
const RotaryScaling& checked(const char* operation, const RotaryScaling& scaling);

// cos and sin (..., dim / 2), dim even, of positions[...] * w_j, w_j = base^(-2j / dim); positions are float64. The
// dynamic scaling looks at the largest of them.
std::pair<Array, Array> rotary_tables(const Array& positions, Index dim, double base,
                                      const RotaryScaling& scaling = {});
// (num_heads): 2^(-8 h / H) for h = 1 .. H if the number H of heads is a power of two; else those of the power of two
// below, then every second one of twice that power.
Array alibi_slopes(Index num_heads);

}  // namespace qkv::ops
