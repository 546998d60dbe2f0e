#include "models/seq2seq.h"

#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "nn/init.h"
#include "nn/score_options.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

const Seq2SeqArguments& checked(const char* name, const Seq2SeqArguments& a) {
  nn::check_positive(name, {{"vocab_size", a.vocab_size},
                            {"embed_size", a.embed_size},
                            {"num_hiddens", a.num_hiddens},
                            {"num_layers", a.num_layers}});
  nn::checked_probability(name, "dropout", a.dropout);
  return a;
}

// Glorot's initial values for the matrices; the biases keep theirs. The documents' programs draw them in this order.
std::shared_ptr<nn::GRU> xavier_gru(Index input_size, const Seq2SeqArguments& a) {
  auto rnn = std::make_shared<nn::GRU>(input_size, a.num_hiddens, a.num_layers, true, a.dropout);
  if (!nn::SkipInit::active())
    for (const auto& [name, parameter] : rnn->named_parameters())
      if (parameter.rank() == 2) nn::fill_xavier_uniform(parameter.data());
  return rnn;
}

}  // namespace

Seq2SeqEncoder::Seq2SeqEncoder(const Seq2SeqArguments& a) : arguments(checked("Seq2SeqEncoder", a)) {
  own_module("embedding", embedding, std::make_shared<nn::Embedding>(a.vocab_size, a.embed_size));
  own_module("rnn", rnn, xavier_gru(a.embed_size, a));
}

nn::Config Seq2SeqEncoder::config() const { return nn::config_of(arguments); }

Encoding Seq2SeqEncoder::encode(const Array& ids, const Array& valid_lens) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(ids), [&](const Tensor& y) { return Seq2SeqEncoder::encode(y.data(), valid_lens); },
                     {&Encoding::outputs, &Encoding::state});
  check_ids("Seq2SeqEncoder", "ids", ids);
  const auto result = rnn->forward(embedding->forward_ids(ids), Tensor(), valid_lens);  // (B, T, H), (layers, B, H)
  return {result.outputs, result.state};
}

template <class Base>
RecurrentDecoder<Base>::RecurrentDecoder(const char* name, const Seq2SeqArguments& a)
    : arguments(checked(name, a)), name_(name) {}

template <class Base> nn::Config RecurrentDecoder<Base>::config() const { return nn::config_of(arguments); }

template <class Base>
DecoderState RecurrentDecoder<Base>::init_state(const Encoding& encoding, const Array& valid_lens) {
  const Tensor &outputs = encoding.outputs, &state = encoding.state;
  const Index H = arguments.num_hiddens;
  if (outputs.rank() != 3 || outputs.dim(2) != H)
    fail_value(name_, ": the encoder's outputs must be (B, Ts, ", H, ") because num_hiddens = ", H, "; got outputs ",
               outputs.shape());
  const Shape expected{arguments.num_layers, outputs.dim(0), H};
  if (state.shape() != expected)
    fail_value(name_, ": the encoder's state must be (num_layers, B, num_hiddens) = ", expected, "; got state ",
               state.shape());
  return {outputs, state, valid_lens, {}};
}

template <class Base> void RecurrentDecoder<Base>::check_call(const Array& ids, const DecoderState& state) const {
  check_ids(name_, "ids", ids);
  const Shape expected{arguments.num_layers, ids.dim(0), arguments.num_hiddens};
  if (state.hidden.shape() != expected)
    fail_value(name_, ": the hidden state must be (num_layers, B, num_hiddens) = ", expected, " because ids are ",
               ids.shape(), "; got hidden state ", state.hidden.shape());
  const Tensor& outputs = state.outputs;
  if (outputs.rank() != 3 || outputs.dim(0) != ids.dim(0) || outputs.dim(2) != arguments.num_hiddens)
    fail_value(name_, ": the encoder's outputs in the state must be (B, Ts, num_hiddens) = (", ids.dim(0), ", Ts, ",
               arguments.num_hiddens, "); got outputs ", outputs.shape());
}

template class RecurrentDecoder<Decoder>;
template class RecurrentDecoder<AttentionDecoder>;

Seq2SeqDecoder::Seq2SeqDecoder(const Seq2SeqArguments& a) : RecurrentDecoder("Seq2SeqDecoder", a) {
  own_module("embedding", embedding, std::make_shared<nn::Embedding>(a.vocab_size, a.embed_size));
  own_module("rnn", rnn, xavier_gru(a.embed_size, a));
  own_module("dense", dense, std::make_shared<nn::Linear>(a.num_hiddens, a.vocab_size));
}

Decoded Seq2SeqDecoder::decode(const Array& ids, const DecoderState& state) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(ids), [&](const Tensor& y) { return Seq2SeqDecoder::decode(y.data(), state); },
                     {&Decoded::logits});
  check_call(ids, state);
  const auto result = rnn->forward(embedding->forward_ids(ids), state.hidden);  // (B, T, H), (layers, B, H)
  return {dense->forward(result.outputs), {state.outputs, result.state, state.valid_lens, state.keys}};
}

Seq2SeqAttentionDecoder::Seq2SeqAttentionDecoder(const Seq2SeqArguments& a)
    : RecurrentDecoder("Seq2SeqAttentionDecoder", a) {
  const Index H = a.num_hiddens;
  own_module("embedding", embedding, std::make_shared<nn::Embedding>(a.vocab_size, a.embed_size));
  own_module("rnn", rnn, xavier_gru(H + a.embed_size, a));
  own_module("attention", attention,
             std::make_shared<nn::AdditiveAttention>(H, nn::AttentionArguments{.dropout = a.dropout}, H, H));
  own_module("dense", dense, std::make_shared<nn::Linear>(H, a.vocab_size));
}

bool Seq2SeqAttentionDecoder::Projected::is_of(const Array& seen, const Tensor& matrix) const {
  return weight.is(matrix.layout(), matrix.impl()->in_panels) && outputs.dtype() == seen.dtype() &&
         outputs.shape() == seen.shape() &&
         std::memcmp(outputs.raw(), packed(seen).raw(), static_cast<std::size_t>(outputs.bytes())) == 0;
}

Tensor Seq2SeqAttentionDecoder::keys_of(const DecoderState& state, bool step) {
  if (state.keys.defined()) return state.keys;
  const nn::Linear& projection = *attention->W_k;
  const auto project = [&] { return attention->W_k->forward(state.outputs); };  // (B, Ts, H)
  const Tensor& weight = projection.weight;
  // Keys with a history belong to one backward pass; those of more than a matrix may be others next time.
  if (!step || !nn::plain(projection) || projection.bias.defined() || wants_gradient({state.outputs, weight}))
    return project();
  auto projected = projected_.get();
  if (!projected || !projected->is_of(state.outputs.data(), weight)) {
    const WeightState before(weight.layout(), weight.impl()->in_panels);
    projected = std::make_shared<const Projected>(Projected{cloned(state.outputs.data()), before, project()});
    projected_.set(projected);
  }
  return projected->keys;
}

Tensor Seq2SeqAttentionDecoder::attend(const Tensor& query, const DecoderState& state, Array* weights) {
  nn::Attention::Call call;
  call.mask_spec.valid_lens = state.valid_lens;
  const nn::AttentionRecord::Capture own(&attention->record);
  const Tensor context = attention->forward(query, state.outputs, state.outputs, call);
  *weights = own.weights();
  if (context.shape() != query.shape())
    fail_value("Seq2SeqAttentionDecoder: attention must give a context ", query.shape(), "; got ", context.shape());
  return context;
}

std::vector<Array> Seq2SeqAttentionDecoder::attention_weights() const {
  const auto weights = weights_.get();
  return weights ? *weights : std::vector<Array>();
}

Decoded Seq2SeqAttentionDecoder::decode(const Array& ids, const DecoderState& state) {
  if (const nn::Observed seen(*this); seen)
    return seen.call(Tensor(ids), [&](const Tensor& y) { return Seq2SeqAttentionDecoder::decode(y.data(), state); },
                     {&Decoded::logits});
  check_call(ids, state);
  const Index B = ids.dim(0), T = ids.dim(1), H = arguments.num_hiddens, layers = arguments.num_layers;
  const Tensor x = embedding->forward_ids(ids);  // (B, T, E)
  // A subclass projects the keys itself, and so does a layer that has not been called yet, which has no W_k.
  const bool projected = nn::plain(*attention) && attention->complete();
  const Tensor keys = projected ? keys_of(state, T == 1) : Tensor();
  nn::MaskSpec mask_spec;
  mask_spec.valid_lens = state.valid_lens;
  Tensor hidden = state.hidden;
  Tensors outputs;
  auto weights = std::make_shared<std::vector<Array>>();
  for (Index t = 0; t < T; ++t) {
    throw_if_interrupted();
    const Tensor query = ops::reshape(ops::slice(hidden, 0, layers - 1, layers), {B, 1, H});
    Array attended;
    const Tensor context = projected ? attention->attend_projected(query, keys, state.outputs, mask_spec, &attended)
                                     : attend(query, state, &attended);  // (B, 1, H)
    const auto step = rnn->forward(ops::concatenate({context, ops::slice(x, 1, t, t + 1)}, 2), hidden);
    hidden = step.state;
    outputs.push_back(step.outputs);  // (B, 1, H)
    if (attended.defined() && !nn::NoAttentionRecord::active()) weights->push_back(attended);
  }
  weights_.set(std::move(weights));
  const Tensor all = T > 0 ? ops::concatenate(outputs, 1) : Tensor(Array({B, 0, H}, dense->weight.dtype()));
  return {dense->forward(all), {state.outputs, hidden, state.valid_lens, keys}};
}

}  // namespace qkv::models
