// Several heads side by side: head_h = attention(q Wq_h, k Wk_h, v Wv_h), output = concat(heads) Wo.
#pragma once

#include "nn/attention.h"
#include "nn/kv_cache.h"
#include "nn/split_sequence.h"

namespace qkv::nn {

// Keys and values of a sequence that many calls attend to, projected by the first of them.
struct ProjectedMemory {
  Tensor keys, values;                 // (B, Lk, Hkv * D)
  void reorder(const Array& indices);  // batch entry i continues what was entry indices[i]
};

class MultiHeadAttention : public Module {
 public:
  struct Arguments {
    Index embed_dim = 0, num_heads = 1;
    double dropout = 0;
    bool bias = true;
    std::optional<bool> out_bias;                          // bias
    std::optional<Index> kdim, vdim;                       // embed_dim
    std::optional<Index> num_kv_heads, head_dim, out_dim;  // num_heads, embed_dim / num_heads, embed_dim
    ops::Causal causal = ops::Causal::none;
    std::optional<double> scale, masked_value;
    std::optional<std::pair<Index, Index>> window;
    std::optional<double> rotary_base;
  };
  struct Call {
    Restriction restriction;
    std::optional<ops::Causal> causal;  // the constructor's
    KVCache* cache = nullptr;
    ProjectedMemory* memory = nullptr;  // is used instead of keys and values once it is filled
    AttentionRecord* record = nullptr;  // of this call alone, while others may use the layer
    Tensor* weights = nullptr;          // gets those of the call, with their history
  };

  explicit MultiHeadAttention(const Arguments& arguments);
  std::string class_name() const override { return "MultiHeadAttention"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override { return MultiHeadAttention::forward(x, Tensor(), Tensor(), {}); }
  // keys undefined: queries; values undefined: keys.
  virtual Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values, const Call& call);

  const Arguments arguments;
  const Index kv_heads, head_dim;
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, out_proj;
  AttentionRecord record;
  Published<SplitSequence> split_sequence;  // the inputs are parts of sequences; nothing if they are whole

 protected:
  void adapt_state(StateDict& state, const std::string& prefix) override;

 private:
  Tensor rotated(const Tensor& x, Index heads, const Array& positions) const;
  // Attention to the keys of all processes, (B, Lq, H * D).
  Tensor across(const SplitSequence& sequence, const Tensor& q, const Tensor& k, const Tensor& v,
                const ops::AttentionOptions& options) const;
};

}  // namespace qkv::nn
