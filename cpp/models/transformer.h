// The Transformer of "Attention Is All You Need": encoder, decoder, embeddings, positions, and the layer that gives
// logits.
#pragma once

#include "models/decoding.h"
#include "nn/positional.h"
#include "nn/transformer.h"

namespace qkv::models {

struct TransformerSizes {
  Index src_vocab = 0, tgt_vocab = 0;
  Index num_encoder_layers = 6, num_decoder_layers = 6;
  Index max_len = 5000, pad_id = 0;
  nn::BlockOptions layer;
};

class Transformer : public nn::Module {
 public:
  explicit Transformer(const TransformerSizes& sizes);
  std::string class_name() const override { return "Transformer"; }
  nn::Config config() const override;
  using Module::forward;

  // src (B, Ts), tgt (B, Tt) to logits (B, Tt, tgt_vocab). Without lengths, keys whose id is pad_id do not count.
  virtual Tensor forward(const Array& src, const Array& tgt, const Array& src_valid_lens, const Array& tgt_valid_lens);
  // Whether a subclass has a forward of its own, which each step of decoding calls then on all tokens so far.
  virtual bool defines_forward() const { return false; }
  Tensor encode(const Array& src, const Array& src_valid_lens);  // the memory (B, Ts, M)
  // The restrictions say which tokens of the target and which rows of the memory count. With a cache, tgt
  // holds the tokens after those that the layers of the decoder have seen.
  Tensor decode(const Array& tgt, const Tensor& memory, const nn::MaskSpec& tgt_mask_spec,
                const nn::MaskSpec& memory_mask_spec, nn::ModelCache* cache = nullptr);
  // Which keys count: the lengths, or all but pad_id.
  nn::MaskSpec source_keys(const Array& src, const Array& src_valid_lens) const;
  nn::MaskSpec target_keys(const Array& tgt, const Array& tgt_valid_lens) const;
  // Continues targets for src; each step decodes one token per row. The model must outlive it.
  std::unique_ptr<Continuation> continuation(const Array& src, const Array& src_valid_lens);

  const TransformerSizes sizes;
  std::shared_ptr<nn::Embedding> src_embedding, tgt_embedding;
  std::shared_ptr<nn::PositionalEncoding> positions;
  std::shared_ptr<nn::TransformerEncoder> encoder;
  std::shared_ptr<nn::TransformerDecoder> decoder;
  std::shared_ptr<nn::Linear> output;

 private:
  Tensor embedded(nn::Embedding& embedding, const Array& ids, Index offset);
  nn::MaskSpec keys_of(const Array& ids, const Array& valid_lens, ops::MaskNames names) const;
};

}  // namespace qkv::models
