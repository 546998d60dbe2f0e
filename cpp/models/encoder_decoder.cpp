#include "models/encoder_decoder.h"

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::models {

void check_ids(const char* operation, const char* name, const Array& ids) {
  if (ids.rank() != 2) fail_value(operation, ": ", name, " must be (B, T); got ", name, " ", ids.shape());
}

DecoderState DecoderState::reordered(const Array& indices) const {
  const Index batch = hidden.dim(1);
  if (indices.rank() != 1) fail_value("reorder_state: indices must be (B,); got indices ", indices.shape());
  for (Index i = 0; i < indices.numel(); ++i)
    if (const std::int64_t index = indices.data<std::int64_t>()[i]; index < 0 || index >= batch)
      fail_value("reorder_state: indices must be in 0..", batch - 1, " because the state has ", batch,
                 " batch entries; got ", index);
  const auto of = [&](const Tensor& x, Index axis) {
    return x.defined() ? Tensor(ops::entries(x.data(), axis, indices)) : x;
  };
  return {of(outputs, 0), of(hidden, 1), valid_lens.defined() ? ops::entries(valid_lens, 0, indices) : valid_lens,
          of(keys, 0)};
}

Encoding Encoder::encode(const Array&, const Array&) {
  throw NotImplemented("Encoder: forward(X, valid_lens=None) must be defined by a subclass");
}

DecoderState Decoder::init_state(const Encoding&, const Array&) {
  throw NotImplemented("Decoder: init_state(encoder_outputs, encoder_valid_lens) must be defined by a subclass");
}

Decoded Decoder::decode(const Array&, const DecoderState&) {
  throw NotImplemented("Decoder: forward(X, state) must be defined by a subclass");
}

std::vector<Array> AttentionDecoder::attention_weights() const {
  throw NotImplemented("AttentionDecoder: attention_weights must be defined by a subclass");
}

EncoderDecoder::EncoderDecoder(nn::ModulePtr encoder_, nn::ModulePtr decoder_) {
  own_module("encoder", encoder, std::move(encoder_));
  own_module("decoder", decoder, std::move(decoder_));
}

Tensor EncoderDecoder::forward(const Array& src, const Array& tgt, const Array& src_valid_lens) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(src),
                     [&](const Tensor& y) { return EncoderDecoder::forward(y.data(), tgt, src_valid_lens); });
  const auto from = std::dynamic_pointer_cast<Encoder>(encoder);
  const auto to = std::dynamic_pointer_cast<Decoder>(decoder);
  if (!from || !to) fail_type("EncoderDecoder: encoder and decoder must be an Encoder and a Decoder");
  return to->decode(tgt, to->init_state(from->encode(src, src_valid_lens), src_valid_lens)).logits;
}

}  // namespace qkv::models
