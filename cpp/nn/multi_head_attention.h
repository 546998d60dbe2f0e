// Several heads side by side: head_h = attention(q Wq_h, k Wk_h, v Wv_h), output = concat(heads) Wo.
#pragma once

#include <array>

#include "nn/attention.h"
#include "nn/init.h"
#include "nn/ragged_rows.h"
#include "nn/score_options.h"
#include "nn/split_sequence.h"

namespace qkv::nn {

// What parts are called instead, in their order.
struct PartNames {
  std::vector<std::pair<std::string, std::string>> pairs = {};
  bool empty() const { return pairs.empty(); }
  bool has(std::string_view own) const;
  std::string of(std::string_view own) const;  // its own where there is no other
  bool operator==(const PartNames&) const = default;
};
Value value_of(const PartNames& names);  // a dict, or None

class MultiHeadAttention : public Module, public AnyAttention {
 public:
  struct Arguments {
    Index embed_dim = 0, num_heads = 1;
    double dropout = 0;
    bool bias = true;
    std::optional<bool> out_bias;                          // bias
    std::optional<Index> kdim, vdim;                       // embed_dim
    std::optional<Index> num_kv_heads, head_dim, out_dim;  // num_heads, embed_dim / num_heads, embed_dim
    PartNames names = {};                                  // of the projections
    ops::Causal causal = ops::Causal::none;
    ScoreOptions scores = {};
    bool operator==(const Arguments&) const = default;
  };
  using Call = AttentionCall;
  // Of a kind of attention with projections: what messages call it, its inputs and their widths, and whether weights
  // have an axis of heads.
  struct Names {
    const char *layer = "MultiHeadAttention", *queries = "queries", *keys = "keys", *values = "values";
    std::array<const char*, 3> widths = {"embed_dim", "kdim", "vdim"};
    bool heads = true;
  };

  explicit MultiHeadAttention(const Arguments& arguments, std::shared_ptr<const SplitSequence> split = nullptr);
  std::string class_name() const override { return "MultiHeadAttention"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override { return MultiHeadAttention::forward(x, Tensor(), Tensor(), {}); }
  // keys undefined: queries; values undefined: keys.
  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call) override;
  const AttentionRecord* last_call() const override { return &record; }
  Index out_features() const { return out_proj ? out_proj->out_features : arguments.num_heads * head_dim; }

  const Arguments arguments;
  const Index kv_heads, head_dim;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, out_proj;
  // Of those options; null and not defined without.
  std::shared_ptr<Norm> q_norm, k_norm;  // of each head's features
  std::shared_ptr<Embedding> relative_bias;
  Tensor sinks;  // (H,)
  AttentionRecord record;
  Published<SplitSequence> split_sequence;  // the inputs are parts of sequences; nothing if they are whole

 protected:
  MultiHeadAttention(const Names& names, const Arguments& arguments);
  void adapt_state(StateDict& state, const std::string& prefix) override;
  void torch_names(NamedTensors& state, const std::string& prefix) const override;

 private:
  const Names& names_;
  const Tensor slopes_;  // (H,) with alibi
  struct Inputs {
    Tensor queries, keys, values;
    bool lifted;     // they had no batch
    bool projected;  // keys and values are those of the call's memory
    bool alone;      // queries are keys and values, too
  };
  struct Projections {
    Tensor queries, keys, values;
  };
  Inputs checked_inputs(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call) const;
  Projections projected(const Inputs& inputs, const Call& call) const;  // fills the call's memory
  void rotate(Projections& p, const Call& call, const SplitSequence* sequence, ops::Causal causal, Index offset) const;
  // (B, L, heads * D) by a norm of each head.
  Tensor normalized(const std::shared_ptr<Norm>& norm, const Tensor& x, Index heads) const;
  // Of `queries` after so many positions that attend to `keys`.
  ops::AttentionOptions options(MaskSpec mask_spec, const Call& call, Index offset, Index queries, Index keys) const;
  Array positions(const Call& call, const SplitSequence* sequence, ops::Causal causal, Index offset, Index rows) const;
  // Attention to the keys of all processes, (B, Lq, H * D).
  Tensor across(const SplitSequence& sequence, const Projections& p, const ops::AttentionOptions& options) const;
};

// Without those of the scores.
template <FieldsOf<MultiHeadAttention::Arguments> Arguments, class F> void for_fields(Arguments& a, F field) {
  field("embed_dim", a.embed_dim);
  field("num_heads", a.num_heads);
  field("dropout", a.dropout);
  field("bias", a.bias);
  field("out_bias", a.out_bias);
  field("kdim", a.kdim);
  field("vdim", a.vdim);
  field("num_kv_heads", a.num_kv_heads);
  field("head_dim", a.head_dim);
  field("out_dim", a.out_dim);
  field("is_causal", a.causal);
  field("names", a.names);
}

}  // namespace qkv::nn
