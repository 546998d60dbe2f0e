// Transformer layers and stacks, with PyTorch's names.
#pragma once

#include <span>

#include "nn/multi_head_attention.h"

namespace qkv::nn {

using kernels::Activation;

// "relu" or "gelu".
Activation activation_named(const char* layer, const std::string& name);

// linear2(dropout(activation(linear1(x)))), for each position alone.
class PositionWiseFFN : public Module {
 public:
  PositionWiseFFN(Index d_model, Index dim_feedforward, double dropout = 0, std::string activation = "relu");
  std::string class_name() const override { return "PositionWiseFFN"; }
  Config config() const override;
  Tensor forward(const Tensor& x) override;

  std::shared_ptr<Linear> linear1, linear2;
  std::shared_ptr<Dropout> dropout;

 private:
  const std::string name_;
  const Activation activation_;
};

// LayerNorm(x + dropout(y)).
class AddNorm : public Module {
 public:
  explicit AddNorm(Shape normalized_shape, double dropout = 0, double eps = 1e-5);
  std::string class_name() const override { return "AddNorm"; }
  Config config() const override;
  using Module::forward;
  Tensor forward(const Tensor& x, const Tensor& y);

  std::shared_ptr<LayerNorm> norm;
  std::shared_ptr<Dropout> dropout;
};

struct TransformerArguments {
  Index d_model = 0, nhead = 1, dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  double layer_norm_eps = 1e-5;
  bool norm_first = false, bias = true;
};

class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerArguments& arguments);
  std::string class_name() const override { return "TransformerEncoderLayer"; }
  Config config() const override;
  Tensor forward(const Tensor& src) override { return TransformerEncoderLayer::forward(src, {}, ops::Causal::none); }
  // src (B, L, M) or (L, M); `weights` gets those of the call, with their history.
  virtual Tensor forward(const Tensor& src, const Restriction& restriction, ops::Causal causal,
                         Tensor* weights = nullptr);

  const TransformerArguments arguments;
  std::shared_ptr<MultiHeadAttention> self_attn;
  std::shared_ptr<Linear> linear1, linear2;
  std::shared_ptr<LayerNorm> norm1, norm2;
  std::shared_ptr<Dropout> dropout, dropout1, dropout2;

 private:
  Tensor attention_block(const Tensor& x, const MultiHeadAttention::Call& call);
  Tensor feed_forward_block(const Tensor& x);
  const Activation activation_;
};

class TransformerDecoderLayer : public Module {
 public:
  struct Call {
    Restriction self, memory;
    ops::Causal causal = ops::Causal::none;
    // For decoding token by token: of this layer alone; null without.
    KVCache* cache = nullptr;
    ProjectedMemory* projected = nullptr;
    AttentionRecord* cross = nullptr;
    Tensor* weights = nullptr;  // gets those of the attention to the memory, with their history
  };
  explicit TransformerDecoderLayer(const TransformerArguments& arguments);
  std::string class_name() const override { return "TransformerDecoderLayer"; }
  Config config() const override;
  using Module::forward;
  virtual Tensor forward(const Tensor& tgt, const Tensor& memory, const Call& call);

  const TransformerArguments arguments;
  std::shared_ptr<MultiHeadAttention> self_attn, multihead_attn;
  std::shared_ptr<Linear> linear1, linear2;
  std::shared_ptr<LayerNorm> norm1, norm2, norm3;
  std::shared_ptr<Dropout> dropout, dropout1, dropout2, dropout3;

 private:
  const Activation activation_;
};

// Layers one after the other, then a norm if there is one. `layers` holds layers of kind L.
template <class L> class TransformerStack : public Module {
 public:
  TransformerStack() : TransformerStack({}, nullptr) {}  // without layers, to be filled by names
  TransformerStack(std::vector<std::shared_ptr<L>> layers, ModulePtr norm);
  std::vector<std::shared_ptr<L>> parts() const;

  std::shared_ptr<ModuleList> layers;
  ModulePtr norm;

 protected:
  Tensor finished(const Tensor& y) const { return norm ? norm->forward(y) : y; }
};

class TransformerEncoder : public TransformerStack<TransformerEncoderLayer> {
 public:
  using TransformerStack::TransformerStack;
  std::string class_name() const override { return "TransformerEncoder"; }
  Tensor forward(const Tensor& src) override { return TransformerEncoder::forward(src, {}, ops::Causal::none); }
  // `weights` gets those of each layer.
  virtual Tensor forward(const Tensor& src, const Restriction& restriction, ops::Causal causal,
                         Tensors* weights = nullptr);
};

class TransformerDecoder : public TransformerStack<TransformerDecoderLayer> {
 public:
  using TransformerStack::TransformerStack;
  std::string class_name() const override { return "TransformerDecoder"; }
  using Module::forward;
  // What decoding token by token keeps, for each layer.
  struct LayerState {
    std::shared_ptr<KVCache> cache = std::make_shared<KVCache>();  // a layer of Python's may keep it
    ProjectedMemory projected;
    AttentionRecord cross;  // the attention to the memory in the last call
  };
  // `states` is empty, or has one for each layer; tgt then holds the tokens behind those that they have seen. `weights`
  // gets those of each layer's attention to the memory.
  virtual Tensor forward(const Tensor& tgt, const Tensor& memory, const TransformerDecoderLayer::Call& call,
                         std::span<LayerState> states = {}, Tensors* weights = nullptr);
};

}  // namespace qkv::nn
