// Transformer layers and stacks, with PyTorch's names.
#pragma once

#include "nn/block.h"

namespace qkv::nn {

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

// norm1(x + dropout1(self_attn(x))), then norm2 of that and the feed-forward network, or the norms first.
class TransformerEncoderLayer : public Block {
 public:
  explicit TransformerEncoderLayer(const BlockOptions& options, ModulePtr attention = nullptr);
  std::string class_name() const override { return "TransformerEncoderLayer"; }
  Config config() const override;
  using Block::forward;
};

// With attention to the memory between them.
class TransformerDecoderLayer : public Block {
 public:
  explicit TransformerDecoderLayer(const BlockOptions& options, ModulePtr attention = nullptr);
  std::string class_name() const override { return "TransformerDecoderLayer"; }
  Config config() const override;
  using Block::forward;
};

// Layers one after the other, then a norm if there is one. `layers` holds layers of kind L.
template <class L> class TransformerStack : public Module {
 public:
  TransformerStack() : TransformerStack({}, nullptr) {}  // without layers, to be filled by names
  TransformerStack(const std::vector<std::shared_ptr<L>>& layers, ModulePtr norm);
  std::vector<std::shared_ptr<Block>> parts() const { return blocks_of<L>(*this, *layers); }
  Tensor forward(const Tensor& x) override;
  // As the layers' own; `weights` gets those of each layer. `cache`, if there is one, has a part for each layer, and x
  // holds the tokens after those that they have seen.
  virtual Tensor forward(const Tensor& x, const Tensor& memory, const BlockCall& call, ModelCache* cache = nullptr,
                         Tensors* weights = nullptr);

  std::shared_ptr<ModuleList> layers;
  ModulePtr norm;
};

class TransformerEncoder : public TransformerStack<TransformerEncoderLayer> {
 public:
  using TransformerStack::forward;
  using TransformerStack::TransformerStack;
  std::string class_name() const override { return "TransformerEncoder"; }
};

class TransformerDecoder : public TransformerStack<TransformerDecoderLayer> {
 public:
  using TransformerStack::forward;
  using TransformerStack::TransformerStack;
  std::string class_name() const override { return "TransformerDecoder"; }
};

}  // namespace qkv::nn
