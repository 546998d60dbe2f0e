// What an encoder and a decoder promise each other.
#pragma once

#include "nn/module.h"

namespace qkv::models {

// Tokens must be (B, T).
void check_ids(const char* operation, const char* name, const Array& ids);

// What an encoder gives: outputs (B, Ts, H) and its last state (layers, B, H).
struct Encoding {
  Tensor outputs, state;
};

// The state of a decoder. Entry b of the batch is entry b of every part.
struct DecoderState {
  Tensor outputs;    // (B, Ts, H) of the encoder
  Tensor hidden;     // (layers, B, H)
  Array valid_lens;  // int64 (B) or undefined: how many of the outputs count
  Tensor keys;       // (B, Ts, H) made of the outputs, or undefined; spares making them again for the next step

  // Batch entry i continues what was entry indices[i]: for beams, which may also repeat entries. Without gradients.
  DecoderState reordered(const Array& indices) const;
};

struct Decoded {
  Tensor logits;  // (B, T, V)
  DecoderState state;
};

// The interfaces, which classes in Python may be derived from.
struct Encoder : nn::Module {
  std::string class_name() const override { return "Encoder"; }
};
struct Decoder : nn::Module {
  std::string class_name() const override { return "Decoder"; }
};
struct AttentionDecoder : Decoder {
  std::string class_name() const override { return "AttentionDecoder"; }
};

}  // namespace qkv::models
