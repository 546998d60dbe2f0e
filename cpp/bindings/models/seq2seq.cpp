// Encoder-decoder interfaces and the models of gated recurrent units.
#include "models/seq2seq.h"
#include "bindings/bindings.h"
#include "bindings/modules/layer_class.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

using namespace models;

template <class Class> void def_sizes(Class& model) {
  def_init<Fields<Seq2SeqArguments>>(model, "vocab_size, embed_size, num_hiddens, num_layers, dropout=0.0");
  model.def_readonly("vocab_size, embed_size, num_hiddens, num_layers, dropout", &Seq2SeqArguments::vocab_size,
                     &Seq2SeqArguments::embed_size, &Seq2SeqArguments::num_hiddens, &Seq2SeqArguments::num_layers,
                     &Seq2SeqArguments::dropout);
}

// A tuple or list of so many parts.
py::sequence parts_of(py::handle value, const char* name, const char* argument, std::size_t count, const char* parts) {
  if (PySequence_Check(value.ptr()) == 0 || is_tensor(value) || py::isinstance<py::array>(value) ||
      py::len(value) != count)
    fail_type(name, ": ", argument, " must be ", parts, "; got ", type_name(value));
  return py::reinterpret_borrow<py::sequence>(value);
}

constexpr const char* kStateParts = "(encoder outputs, hidden state, encoder_valid_lens), as init_state gives it";

DecoderState state_from(Call& call, py::handle state, const char*) {
  const py::sequence parts = parts_of(state, call.operation(), "state", 3, kStateParts);
  return {call.floating(parts[0], "state[0]"),
          call.floating(parts[1], "state[1]"),
          call.integers_or_none(parts[2], "state[2]"),
          {}};
}

py::tuple state_tuple(const DecoderState& state) {
  const Array& lens = state.valid_lens;
  return py::make_tuple(state.outputs, state.hidden, lens.defined() ? Tensor(lens) : Tensor());
}

template <class Class> void def_decoder(Class& decoder) {
  using Model = typename Class::type;
  using State = As<state_from>;
  op(decoder, "init_state(encoder_outputs, encoder_valid_lens=None)",
     "The state to decode from: (encoder outputs, hidden state, encoder_valid_lens).",
     [](Model& self, py::handle encoder_outputs, IntegersOrNone encoder_valid_lens, Call& call) {
       const py::sequence parts = parts_of(encoder_outputs, call.operation(), "encoder_outputs", 2,
                                           "(outputs, state), as the encoder gives them");
       const Tensor outputs = call.floating(parts[0], "outputs"), state = call.floating(parts[1], "state");
       return state_tuple(self.Model::init_state({outputs, state}, encoder_valid_lens));
     });
  op(decoder, "forward(ids, state)", [](Model& self, const Array& ids, State state, Call&) {
    const Decoded y = without_gil([&] { return self.Model::decode(ids, state); });
    return py::make_tuple(y.logits, state_tuple(y.state));
  });
  op(decoder, "reorder_state(state, indices)",
     "The state in which batch entry i continues what was entry indices[i], for beams; without gradients.",
     [](Model&, State state, const Array& indices, Call&) { return state_tuple(state.reordered(indices)); });
}

constexpr const char* kSizes = R"doc(
Parameters
----------
vocab_size, embed_size : int
    Rows and columns of the embedding.
num_hiddens, num_layers : int
    ``H`` and the number of layers of the GRU.
dropout : float
    Between the GRU's layers, and of the attention weights where there are some; in training only.
)doc";

// A method that a subclass defines.
template <class Class> void def_missing(Class& interface, const char* name, const char* rest) {
  const std::string words =
      text(py::str(interface.attr("__name__")).cast<std::string>(), ": ", name, rest, " must be defined by a subclass");
  interface.def(name, "A subclass defines it; the class says how.",
                [words](typename Class::type&, const py::args&, const py::kwargs&) -> py::object {
                  throw NotImplemented(words);
                });
}

void bind_interfaces(Functions& m) {
  auto encoder = def_class<LayerClass<Encoder>>(m, "Encoder()", R"doc(
Base of encoders: a subclass defines ``forward(X, valid_lens=None)``.

What it returns is for the decoder's ``init_state``.

Raises
------
NotImplementedError
    When called and no subclass defines ``forward``.

Examples
--------
>>> class Lengths(qkv.models.Encoder):
...     def forward(self, X, valid_lens=None):
...         return np.sum(np.asarray(X) > 0, axis=1)
>>> Lengths()([[5, 3, 0]])
array([2])
)doc");
  def_missing(encoder, "forward", "(X, valid_lens=None)");

  auto decoder = def_class<LayerClass<Decoder>>(m, "Decoder()", R"doc(
Base of decoders: a subclass defines ``init_state(encoder_outputs, encoder_valid_lens)`` and ``forward(X, state)``.

``init_state`` turns what the encoder returned into a state; ``forward`` takes tokens and a state and returns the output
and the next state. ``reorder_state(state, indices)``, for beam search, returns the state in which batch entry ``i``
continues what was entry ``indices[i]``.

Raises
------
NotImplementedError
    When one of these is called that no subclass defines.

Examples
--------
>>> class Echo(qkv.models.Decoder):
...     def init_state(self, encoder_outputs, encoder_valid_lens=None):
...         return encoder_outputs
...     def forward(self, X, state):
...         return np.asarray(X) + state, state + 1
>>> decoder = Echo()
>>> decoder([1, 2], decoder.init_state(10))
(array([11, 12]), 11)
)doc");
  def_missing(decoder, "init_state", "(encoder_outputs, encoder_valid_lens)");
  def_missing(decoder, "forward", "(X, state)");
  def_missing(decoder, "reorder_state", "(state, indices)");

  auto attention_decoder = def_class<LayerClass<AttentionDecoder, Decoder>>(m, "AttentionDecoder()", R"doc(
Base of decoders with attention: a :class:`Decoder` with the property ``attention_weights``.

Raises
------
NotImplementedError
    When ``attention_weights`` is read, or a method called, that no subclass defines.

Examples
--------
>>> issubclass(qkv.models.Seq2SeqAttentionDecoder, qkv.models.AttentionDecoder)
True
)doc");
  attention_decoder.def_property("attention_weights", [](const AttentionDecoder&) -> py::object {
    throw NotImplemented("AttentionDecoder: attention_weights must be defined by a subclass");
  });
}

}  // namespace

void bind_seq2seq(Functions& m) {
  bind_interfaces(m);
  LayerClass<Seq2SeqEncoder, Encoder> encoder(m, "Seq2SeqEncoder", std::string(R"doc(
Embedding and GRU: what the tokens of a sequence mean, each with what stands before it.
)doc") + kSizes + R"doc(
Attributes
----------
embedding : Embedding
rnn : GRU
    Matrices drawn uniformly after Glorot, as the documents do.

Raises
------
ValueError
    If ``ids`` is not ``(B, T)`` or holds a number that is no row of the embedding.

Notes
-----
Called ``(ids, valid_lens=None)`` with ``ids`` ``(B, T)``; returns ``(outputs, state)``: ``(B, T, num_hiddens)`` and
``(num_layers, B, num_hiddens)``. The document's encoder has the time first and takes no lengths.

References
----------
Sutskever, Vinyals, Le, Sequence to Sequence Learning with Neural Networks, 2014.

Examples
--------
>>> outputs, state = qkv.models.Seq2SeqEncoder(10, 8, 16, 2)(np.zeros((4, 7), int))
>>> outputs.shape, state.shape
((4, 7, 16), (2, 4, 16))
)doc");
  def_sizes(encoder);
  op(encoder, "forward(ids, valid_lens=None)", [](Seq2SeqEncoder& self, const Array& ids, IntegersOrNone valid_lens) {
    const Encoding y = self.Seq2SeqEncoder::encode(ids, valid_lens);
    return std::pair(y.outputs, y.state);
  });

  LayerClass<Seq2SeqDecoder, Decoder> decoder(m, "Seq2SeqDecoder", std::string(R"doc(
GRU over the embeddings from the encoder's last state on, then a Linear layer: all it knows of the source is that state.
)doc") + kSizes + R"doc(
Attributes
----------
embedding : Embedding
rnn : GRU
dense : Linear

Raises
------
ValueError
    If ``ids`` or a part of the state has another shape.

Notes
-----
``init_state(encoder_outputs, encoder_valid_lens=None)`` takes the encoder's ``(outputs, state)`` and gives ``(outputs,
hidden state, encoder_valid_lens)``. Called ``(ids, state)`` with ``ids`` ``(B, T)``; returns logits ``(B, T, vocab_size)``
and the state behind the last token. ``reorder_state(state, indices)`` is for beams.

References
----------
Sutskever, Vinyals, Le, Sequence to Sequence Learning with Neural Networks, 2014.

Examples
--------
>>> encoder, decoder = (kind(10, 8, 16, 2) for kind in (qkv.models.Seq2SeqEncoder, qkv.models.Seq2SeqDecoder))
>>> logits, state = decoder([[1, 2, 3]], decoder.init_state(encoder([[4, 5]])))
>>> logits.shape, state[1].shape
((1, 3, 10), (2, 1, 16))
)doc");
  def_sizes(decoder);
  def_decoder(decoder);

  LayerClass<Seq2SeqAttentionDecoder, AttentionDecoder> attention(m, "Seq2SeqAttentionDecoder", std::string(R"doc(
Bahdanau's decoder: before each step its state asks the encoder's outputs, by additive attention, and gets a context.

``c_t = attention(query=h_{t-1}, keys=values=encoder outputs)``, ``h_t = GRU([c_t, embedding(y_t)], h_{t-1})``,
``logits_t = dense(h_t)``; the query is the state of the last layer.
)doc") + kSizes + R"doc(
Attributes
----------
embedding : Embedding
rnn : GRU
    Of ``num_hiddens + embed_size`` inputs, the context first.
attention : AdditiveAttention
dense : Linear
attention_weights : list of Tensor
    ``(B, 1, Ts)`` for each step of the last call; assigning None frees them.

Raises
------
ValueError
    If ``ids`` or a part of the state has another shape.

Notes
-----
``init_state(encoder_outputs, encoder_valid_lens=None)`` takes the encoder's ``(outputs, state)`` and gives ``(outputs,
hidden state, encoder_valid_lens)``. Called ``(ids, state)`` with ``ids`` ``(B, T)``; returns logits ``(B, T, vocab_size)``
and the state behind the last token. Outputs behind ``encoder_valid_lens`` are not attended to. The encoder's outputs are
projected to keys once, not at each step. ``reorder_state(state, indices)`` is for beams.

References
----------
Bahdanau, Cho, Bengio, Neural Machine Translation by Jointly Learning to Align and Translate, 2014.

Examples
--------
>>> encoder, decoder = (kind(10, 8, 16, 2) for kind in (qkv.models.Seq2SeqEncoder, qkv.models.Seq2SeqAttentionDecoder))
>>> X = np.zeros((4, 7), int)
>>> output, state = decoder(X, decoder.init_state(encoder(X), None))
>>> output.shape, state[0].shape, state[1][0].shape, len(decoder.attention_weights)
((4, 7, 10), (4, 7, 16), (4, 16), 7)
)doc");
  def_sizes(attention);
  def_decoder(attention);
  attention.def_property(
      "attention_weights", "Weights (B, 1, Ts) for each step of the last call; an empty list before the first.",
      [](const Seq2SeqAttentionDecoder& self) {
        const auto& steps = self.attention_weights();
        return Tensors(steps.begin(), steps.end());
      },
      [](Seq2SeqAttentionDecoder& self, py::handle value) {
        if (!value.is_none()) fail_type("attention_weights: can only be set to None, which frees them");
        self.clear_attention_weights();
      });
}

}  // namespace qkv::bindings
