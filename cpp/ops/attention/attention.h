// Scaled dot-product attention with every option, and its gradients.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>

#include "autograd/tensor.h"
#include "core/random.h"
#include "kernels/attention/problem.h"

namespace qkv::ops {

using kernels::Normalizer;
using kernels::PairSizes;
// "softmax" and so on; messages name the operation.
Normalizer normalizer_named(const char* operation, const std::string& name);
const char* name_of(Normalizer normalizer);

enum class Causal { none, upper_left, lower_right };

// The arguments of a call that say which keys count, and what its caller calls them.
struct MaskNames {
  const char* valid_lens = "valid_lens";
  const char* attn_mask = "attn_mask";
  bool operator==(const MaskNames&) const = default;
};

struct Formula;

// What a call says of its pairs by functions of batch, head, query and key, before its sizes are known.
class FormulaSource {
 public:
  // `offsets` (B): positions of the first queries; not defined: 0.
  struct Pairs : PairSizes {
    Array offsets = {};
    DType dtype = DType::float32;  // of the scores
  };
  // What must all allow a pair that counts, and what becomes of the scores of these.
  struct Bound {
    std::pair<Index, Index> window{-1, -1};
    Array valid_lens = {};                        // int64 (B), or not defined
    std::shared_ptr<const Formula> formula = {};  // the rest; null: nothing
  };
  virtual ~FormulaSource() = default;
  virtual Bound bind(const Pairs& pairs) const = 0;
};

struct MaskSpec {
  Array valid_lens = {};    // int64 (B,) or (B, Lq)
  Tensor attn_mask = {};    // broadcasts to the weights: boolean (true = may attend) or floating (added)
  Array dropout_keep = {};  // boolean, the weights' shape; replaces the draw
  MaskNames names = {};
  std::shared_ptr<const FormulaSource> formula_source = {};
  bool has_bias() const { return attn_mask.defined() && attn_mask.dtype() != DType::boolean; }
  bool operator==(const MaskSpec&) const = default;
};

// What a user's function makes of scores, before the exclusions, and of weights, before dropout.
struct ScoreChanges {
  std::function<Tensor(const Tensor&)> scores, weights;
};

// Numbers that change scores. A new one is a field and a row here, and its nodes in formula/options.cpp.
struct ScoreNumbers {
  double softcap = 0;  // scores become softcap * tanh(score / softcap); 0: none
  bool operator==(const ScoreNumbers&) const = default;
};
struct ScoreNumber {
  const char* name;
  double ScoreNumbers::* field;
  bool from_zero;  // 0, which is off, or above; else any finite number
};
inline constexpr ScoreNumber kScoreNumbers[] = {{"softcap", &ScoreNumbers::softcap, true}};

// What a layer may be told of all its calls, by the same names.
struct SharedOptions : ScoreNumbers {
  std::optional<std::pair<Index, Index>> window = {};  // (left, right); -1: unlimited
  std::optional<double> scale = {};                    // 1 / sqrt(D) if not given
  std::optional<double> masked_value = {};
  Normalizer normalizer = Normalizer::softmax;
  bool operator==(const SharedOptions&) const = default;
};
template <class Options, class F>
  requires std::same_as<std::remove_const_t<Options>, SharedOptions>
void for_fields(Options& o, F field) {
  field("window", o.window);
  for (const ScoreNumber& number : kScoreNumbers) field(number.name, o.*number.field);
  field("scale", o.scale);
  field("masked_value", o.masked_value);
  field("normalizer", o.normalizer);
}
// The options, of which a number may be out of its range; messages name `operation`, which may be a layer.
const SharedOptions& checked(const char* operation, const SharedOptions& options);

// Everything but queries, keys and values; the defaults are plain attention. What each does is in
// kernels/attention/problem.h. Shapes are those of rank-4 inputs; see attention() for the smaller ranks.
struct AttentionOptions : MaskSpec, SharedOptions {
  const char* operation = "scaled_dot_product_attention";  // who complains
  Causal causal = Causal::none;
  bool enable_gqa = false;  // allow fewer key/value heads than query heads
  Tensor alibi_slopes;      // (H,)
  Array q_offset;           // int64 () or (B,)
  Tensor sinks;             // (H,)
  Tensor distance_bias;     // (Lq + Lk - 1, H): row i - j + Lk - 1 is added to the scores of query i and key j
  double dropout = 0;       // probability of dropping a weight
  std::optional<std::uint64_t> dropout_key;  // of the stream; one 64-bit draw of the default generator if not given
  kernels::DropoutOrigin dropout_origin;     // used with that key
  std::shared_ptr<const Formula> formula;    // of scores and allowed pairs (ops/attention/formula/formula.h)
  bool return_weights = false;
  bool return_lse = false;
  bool keep_layout = false;               // the axes of the output have the order in memory of the query's
  const ScoreChanges* changes = nullptr;  // of a call that leaves the kernels for them
  bool operator==(const AttentionOptions&) const = default;
};

struct AttentionOutputs {
  Tensor output, weights = {}, lse = {};  // the last two only if asked for
};

// query (B, H, Lq, D), key (B, Hkv, Lk, D), value (B, Hkv, Lk, Dv), or without H, or without B and H.
AttentionOutputs attention(const Tensor& query, const Tensor& key, const Tensor& value,
                           const AttentionOptions& options);

// The composed form of all attention: scores, what is allowed, normaliser, dropout, values, by recorded operations. It
// serves scores that no kernel makes and is what gradients of the kernels' attention are when they are differentiated
// again. Scores ([B, [H,]] Lq, Lk) are scaled and nothing else, values ([B, [H,]] Lk, Dv); the weights are returned,
// too.
AttentionOutputs composed_attention(const Tensor& scores, const Tensor& values, const AttentionOptions& options);

// Heads side by side, as projections give them: query (B, Lq, H * D), key (B, rows, Hkv * D), value (B, rows, Hkv * Dv)
// of which the first `length` rows count (all if it is -1); output (B, Lq, H * Dv), weights (B, H, Lq, Lk). The mask is
// (Lq, Lk), (B, Lq, Lk) for all heads, or has 4 axes. Nothing is transposed or copied.
struct Heads {
  Index query_heads = 1, kv_heads = 1;
  Index length = -1;
};
AttentionOutputs packed_attention(const Tensor& query, const Tensor& key, const Tensor& value, Heads heads,
                                  const AttentionOptions& options);

// The weights alone of such a call, (B, H, Lq, Lk), before dropout.
Array packed_attention_weights(const Array& query, const Array& key, Heads heads, const AttentionOptions& options);
// Its scores before the exclusions.
Array packed_attention_scores(const Array& query, const Array& key, Heads heads, const AttentionOptions& options);

// What is excluded from, of scores ([B, [H,]] Lq, Lk) that are scaled and nothing else.
Tensor final_scores(const Tensor& scores, const AttentionOptions& options);

}  // namespace qkv::ops
