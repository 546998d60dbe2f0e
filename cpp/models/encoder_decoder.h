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

// Where a decoder stands. Entry b of the batch is entry b of every part.
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

class Encoder : public nn::Module {
 public:
  std::string class_name() const override { return "Encoder"; }
  // ids int64 (B, Ts), valid_lens int64 (B) or undefined.
  virtual Encoding encode(const Array& ids, const Array& valid_lens = {});
};

class Decoder : public nn::Module {
 public:
  std::string class_name() const override { return "Decoder"; }
  virtual DecoderState init_state(const Encoding& encoding, const Array& valid_lens = {});
  // ids int64 (B, T): the tokens that follow those that made the state.
  virtual Decoded decode(const Array& ids, const DecoderState& state);
};

class AttentionDecoder : public Decoder {
 public:
  std::string class_name() const override { return "AttentionDecoder"; }
  // Of the last call, one array for each step.
  virtual std::vector<Array> attention_weights() const;
};

// An encoder and a decoder under these names; any modules that Python calls in this way will do there.
class EncoderDecoder : public nn::Module {
 public:
  EncoderDecoder() : EncoderDecoder(nullptr, nullptr) {}  // without parts, to be filled by names
  EncoderDecoder(nn::ModulePtr encoder, nn::ModulePtr decoder);
  std::string class_name() const override { return "EncoderDecoder"; }
  using Module::forward;
  // Logits (B, T, V) for each of the tokens tgt (B, T), given src (B, Ts).
  Tensor forward(const Array& src, const Array& tgt, const Array& src_valid_lens = {});

  nn::ModulePtr encoder, decoder;
};

}  // namespace qkv::models
