// The transformer block: self-attention, attention to a memory where there is one, and a feed-forward network, each
// with a norm and a residual connection. Every kind of layer is a choice of its options and of the order of its parts.
#pragma once

#include <array>

#include "nn/activations.h"
#include "nn/multi_head_attention.h"

namespace qkv::nn {

// Where norms are: post norm(x + f(x)), pre x + f(norm(x)), sandwich x + post_norm(f(norm(x))), parallel
// x + attention(norm1(x)) + feed_forward(norm2(x)).
enum class Placement { post, pre, sandwich, parallel };
Placement placement_named(const char* owner, const std::string& name);
const char* name_of(Placement placement);
inline Value value_of(Placement placement) { return std::string(name_of(placement)); }

struct BlockOptions {
  MultiHeadAttention::Arguments attention = {};  // embed_dim is the width of the block
  Index inner = 2048;                            // the width between the linear layers
  double dropout = 0.1;                          // of what each sublayer adds
  double inner_dropout = 0.1;                    // of inner features
  std::string activation = "relu";
  bool gated = false;  // linear2(activation(linear_gate(x)) * linear1(x)), else linear2(activation(linear1(x)))
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  Placement placement = Placement::post;
  bool attention_norm = true;  // whether there is a norm1
  bool bias = true;            // of the linear layers
  bool norm_bias = true;
  bool memory = false;                      // attention to a memory between self-attention and feed-forward network
  std::optional<double> memory_scale = {};  // of its scores
  PartNames names = {};                     // paths of the only parts that there are then, see check_names
  bool operator==(const BlockOptions&) const = default;
};

// Without memory_scale, which TransformerBlock takes from the other.
template <FieldsOf<BlockOptions> Options, class F> void for_fields(Options& o, F field) {
  auto& a = o.attention;
  field("d_model", a.embed_dim);
  field("nhead", a.num_heads);
  field("dim_feedforward", o.inner);
  field("num_kv_heads", a.num_kv_heads);
  field("head_dim", a.head_dim);
  field("activation", o.activation);
  field("gated", o.gated);
  field("norm", o.norm);
  field("norm_eps", o.norm_eps);
  field("norm_bias", o.norm_bias);
  field("placement", o.placement);
  field("attention_norm", o.attention_norm);
  field("bias", o.bias);
  field("qkv_bias", a.bias);
  field("out_bias", a.out_bias);
  field("dropout", o.dropout);
  field("inner_dropout", o.inner_dropout);
  field("attention_dropout", a.dropout);
  field("is_causal", a.causal);
  field("memory", o.memory);
  for_fields(a.scores, field);
  field("names", o.names);
}

// What a kind of block is called, and the parts that it may have, in the order of their registration: self_attn
// multihead_attn linear1 linear_gate linear2 norm1 norm2 norm3 post_norm1 post_norm2 post_norm3
// dropout dropout1 dropout2 dropout3 inner_dropout, numbered by sublayer. Without dropout1 dropout is that of what
// sublayers add, else of inner features.
struct BlockNames {
  const char *block, *input;
  std::initializer_list<const char*> parts, sublayers;  // the second: what messages call those that made a residual
};

struct BlockCall {
  MaskSpec self = {}, memory = {};         // which tokens, and which rows of the memory, count
  std::optional<ops::Causal> causal = {};  // what the attention does without being told
  // For decoding token by token; null without.
  KVCache* cache = nullptr;
  ProjectedMemory* projected = nullptr;
  AttentionRecord* cross = nullptr;
  Tensor* weights = nullptr;  // gets those of the last attention, with their history
  // For models: x (R, M) holds the kept rows of a padded batch, and what its layers share.
  const RaggedRows* rows = nullptr;
  const SharedPositions* shared = nullptr;
};

class Block : public Module {
 public:
  // `attention` replaces the self-attention that the options describe.
  Block(const BlockNames& names, const BlockOptions& options, ModulePtr attention = nullptr);
  Tensor forward(const Tensor& x) override;
  // x (B, L, M) or (L, M), memory likewise or undefined.
  virtual Tensor forward(const Tensor& x, const Tensor& memory, const BlockCall& call);

  struct Parts {
    ModulePtr self_attn, multihead_attn;                                      // the second null without a memory
    std::shared_ptr<Linear> attention_output, linear1, linear2, linear_gate;  // null where there is none
    std::array<std::shared_ptr<Norm>, 3> norms, post_norms;                   // of each sublayer
    std::array<std::shared_ptr<Dropout>, 3> dropouts;                         // of all sublayers if there is one
    std::shared_ptr<Dropout> inner_dropout;
    Dropout& dropout(std::size_t number) const { return *(dropouts[number] ? dropouts[number] : dropouts[0]); }
  };
  // Those that have the block's names now.
  Parts parts() const;

  const BlockOptions options;
  // The record of the attention that `BlockCall::weights` gets; null if that part keeps none.
  const AttentionRecord* shown_record() const;
  ModulePtr shown_attention() const;

 private:
  template <class F> Tensor sublayer(const Parts& parts, std::size_t number, const Tensor& x, F f);
  Tensor self_attention(const Parts& parts, const Tensor& x, const BlockCall& call);
  Tensor memory_attention(const Parts& parts, const Tensor& x, const Tensor& memory, const BlockCall& call);
  Tensor feed_forward(const Parts& parts, const Tensor& x);
  // A part that the options ask for, or null.
  ModulePtr made(std::string_view role, const ModulePtr& attention) const;
  void place(const std::string& path, ModulePtr part);
  ModulePtr at(const std::string& path) const;
  const char* made_by(std::size_t number) const;
  void check_sequence(const char* name, const Tensor& x) const;

  const BlockNames& names_;
  const Activation activation_;
  Parts own_;  // unless the options name them
};

// Checks what constructors ask of sizes and probabilities.
const BlockOptions& checked(const char* layer, const BlockOptions& options);

// What decoding token by token keeps for each layer of a model. All layers have seen the same tokens.
class ModelCache {
 public:
  struct Layer {
    std::shared_ptr<KVCache> cache = std::make_shared<KVCache>();  // a layer of Python's may keep it
    ProjectedMemory projected;
    AttentionRecord cross;  // the attention to the memory in the last call
  };
  explicit ModelCache(std::size_t count) : layers(count) {}
  explicit ModelCache(const std::vector<std::shared_ptr<KVCache>>& caches);
  Index length() const { return layers.empty() ? 0 : layers.front().cache->length(); }
  // Batch entry i continues what was entry indices[i], of the memory too if `all`.
  void reorder(const Array& indices, bool all = false);

  std::vector<Layer> layers;
};

// Tokens that a call adds to all layers. Unless it is committed, all layers forget them, so that a call that fails or
// is interrupted leaves the cache as it was.
class CacheStep {
 public:
  // The cache may be null. A ValueError that names `model`, if that is given, if the layers' lengths differ or there
  // are not `count`.
  explicit CacheStep(ModelCache* cache, const char* model = nullptr, std::size_t count = 0);
  ~CacheStep();
  void commit();

 private:
  ModelCache* cache_;
  Index before_ = 0;
  std::optional<KVCache::Use> one_thread_;  // of the first layer's, which every call takes first
};

[[noreturn]] void wrong_part(const Module& owner, const char* list, const ModulePtr& part);

// The layers that a list holds, all of kind L.
template <class L, class Base = Block>
std::vector<std::shared_ptr<Base>> blocks_of(const Module& owner, const ModuleList& list, const char* name = "layers") {
  std::vector<std::shared_ptr<Base>> found;
  const auto entries = list.snapshot();
  for (const Module::Entry& entry : *entries) {
    auto block = std::dynamic_pointer_cast<L>(entry.module);
    if (!block) wrong_part(owner, name, entry.module);
    found.push_back(std::move(block));
  }
  return found;
}

// x through the blocks one after the other; `weights` gets those of each, `states` what each gave.
Tensor through(const std::vector<std::shared_ptr<Block>>& blocks, Tensor x, const Tensor& memory, BlockCall call,
               ModelCache* cache = nullptr, Tensors* weights = nullptr, Tensors* states = nullptr);

}  // namespace qkv::nn
