// The transformer block: self-attention, attention to a memory where there is one, and a feed-forward network, each
// with a norm and a residual connection. Every kind of layer is a choice of its options and of the order of its parts.
#pragma once

#include <array>

#include "nn/activations.h"
#include "nn/multi_head_attention.h"

namespace qkv::nn {

struct BlockOptions {
  MultiHeadAttention::Arguments attention = {};  // embed_dim is the width of the block
  Index inner = 2048;                            // the width between the linear layers
  double dropout = 0.1;                          // of inner features and of what each sublayer adds
  std::string activation = "relu";
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  bool norm_first = false;  // x + f(norm(x)), else norm(x + f(x))
  bool bias = true;         // of linear layers and norms
  bool operator==(const BlockOptions&) const = default;
};

// What a kind of block is called, and the names of its parts in the order of their registration. Those are self_attn
// multihead_attn linear1 linear2 norm1 norm2 norm3 dropout dropout1 dropout2 dropout3; one with multihead_attn takes a
// memory. Without dropout1 there is one dropout, that of what sublayers add.
struct BlockNames {
  const char *block, *input;
  std::initializer_list<const char*> parts;
  std::initializer_list<const char*> sublayers;  // what messages call the parts that made a residual
};

struct BlockCall {
  MaskSpec self = {}, memory = {};         // which tokens, and which rows of the memory, count
  std::optional<ops::Causal> causal = {};  // what the attention does without being told
  // For decoding token by token; null without.
  KVCache* cache = nullptr;
  ProjectedMemory* projected = nullptr;
  AttentionRecord* cross = nullptr;
  Tensor* weights = nullptr;  // gets those of the last attention, with their history
};

class Block : public Module {
 public:
  // `attention` stands in for the self-attention that the options describe.
  Block(const BlockNames& names, const BlockOptions& options, ModulePtr attention = nullptr);
  Tensor forward(const Tensor& x) override;
  // x (B, L, M) or (L, M), memory likewise or undefined.
  virtual Tensor forward(const Tensor& x, const Tensor& memory, const BlockCall& call);

  const BlockOptions options;
  ModulePtr self_attn, multihead_attn;  // null without a memory
  std::shared_ptr<Linear> linear1, linear2;
  // The record of the attention that `BlockCall::weights` gets; null if that part keeps none.
  const AttentionRecord* shown_record() const;
  const ModulePtr& shown_attention() const { return multihead_attn ? multihead_attn : self_attn; }

 private:
  template <class F> Tensor sublayer(std::size_t number, const Tensor& x, F f);
  void check_sequence(const char* name, const Tensor& x) const;

  const BlockNames& names_;
  const Activation activation_;
  std::array<std::shared_ptr<Norm>, 3> norms_;
  std::array<std::shared_ptr<Dropout>, 4> dropouts_;  // inside the feed-forward network, then behind each sublayer
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

// x through the blocks one after the other; `weights` gets those of each.
Tensor through(const std::vector<std::shared_ptr<Block>>& blocks, Tensor x, const Tensor& memory, BlockCall call,
               ModelCache* cache = nullptr, Tensors* weights = nullptr);

}  // namespace qkv::nn
