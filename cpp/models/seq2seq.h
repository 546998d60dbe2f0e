// Sequence to sequence with gated recurrent units, with and without Bahdanau's attention.
#pragma once

#include "models/encoder_decoder.h"
#include "nn/additive_attention.h"
#include "nn/gru.h"

namespace qkv::models {

struct Seq2SeqArguments {
  Index vocab_size = 0, embed_size = 0, num_hiddens = 0, num_layers = 1;
  double dropout = 0;
};
template <nn::FieldsOf<Seq2SeqArguments> Arguments, class F> void for_fields(Arguments& a, F field) {
  field("vocab_size", a.vocab_size);
  field("embed_size", a.embed_size);
  field("num_hiddens", a.num_hiddens);
  field("num_layers", a.num_layers);
  field("dropout", a.dropout);
}

// GRU over the embeddings of all tokens.
class Seq2SeqEncoder : public Encoder {
 public:
  explicit Seq2SeqEncoder(const Seq2SeqArguments& arguments);
  std::string class_name() const override { return "Seq2SeqEncoder"; }
  nn::Config config() const override;
  Encoding encode(const Array& ids, const Array& valid_lens = {});

  const Seq2SeqArguments arguments;
  std::shared_ptr<nn::Embedding> embedding;
  std::shared_ptr<nn::GRU> rnn;
};

// What both decoders share: they start from the encoder's last state.
template <class Base> class RecurrentDecoder : public Base {
 public:
  nn::Config config() const override;
  DecoderState init_state(const Encoding& encoding, const Array& valid_lens = {});

  const Seq2SeqArguments arguments;
  std::shared_ptr<nn::Embedding> embedding;
  std::shared_ptr<nn::GRU> rnn;
  std::shared_ptr<nn::Linear> dense;

 protected:
  explicit RecurrentDecoder(const char* name, const Seq2SeqArguments& arguments);
  void check_call(const Array& ids, const DecoderState& state) const;

  const char* const name_;
};

// GRU over the embeddings alone, then a Linear layer.
class Seq2SeqDecoder : public RecurrentDecoder<Decoder> {
 public:
  explicit Seq2SeqDecoder(const Seq2SeqArguments& arguments);
  std::string class_name() const override { return "Seq2SeqDecoder"; }
  Decoded decode(const Array& ids, const DecoderState& state);
};

// At each step the last layer's state asks the encoder's outputs; the answer, beside the token's embedding, is what the
// GRU gets.
class Seq2SeqAttentionDecoder : public RecurrentDecoder<AttentionDecoder> {
 public:
  explicit Seq2SeqAttentionDecoder(const Seq2SeqArguments& arguments);
  std::string class_name() const override { return "Seq2SeqAttentionDecoder"; }
  Decoded decode(const Array& ids, const DecoderState& state);
  std::vector<Array> attention_weights() const;
  void clear_attention_weights() { weights_.set(nullptr); }

  std::shared_ptr<nn::AdditiveAttention> attention;

 private:
  Tensor keys_of(const DecoderState& state, bool step);
  // By the attention's own forward, which projects the keys, too. `weights` stays undefined if it does not give them.
  Tensor attend(const Tensor& query, const DecoderState& state, Array* weights);

  Published<std::vector<Array>> weights_;  // (B, 1, Ts) for each step
  // The keys of the outputs that a call for one token saw last. A copy of these tells whether they are the same, which
  // costs num_hiddens times less than the keys.
  struct Projected {
    Array outputs;
    WeightState weight;
    Tensor keys;
    bool is_of(const Array& outputs, const Tensor& weight) const;
  };
  Published<Projected> projected_;
};

}  // namespace qkv::models
