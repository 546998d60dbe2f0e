// The Transformer with embeddings and logits.
#include "bindings/bindings.h"
#include "bindings/layers/block.h"
#include "bindings/models/decoding.h"
#include "bindings/values/class.h"
#include "core/error.h"
#include "models/transformer.h"

namespace qkv::bindings {

using namespace models;

template <> struct PythonForward<Transformer> {
  static Tensor call(const Transformer& model, const DefinedCall& forward, const Array& src, const Array& tgt,
                     const Array& src_valid_lens, const Array& tgt_valid_lens) {
    Keywords keywords;
    keywords.add("src_valid_lens", src_valid_lens);
    keywords.add("tgt_valid_lens", tgt_valid_lens);
    const Tensor y = call_for_tensor(forward, py::make_tuple(Tensor(src), Tensor(tgt)), keywords.all());
    return checked_shape(forward, y, {tgt.dim(0), tgt.dim(1), model.sizes.tgt_vocab});
  }
};

namespace {

struct TransformerFields : LayerFields {
  TransformerSizes sizes;
};
template <class F> void for_fields(TransformerFields& f, F field) {
  for_fields(static_cast<LayerFields&>(f), field);
  field("src_vocab", f.sizes.src_vocab);
  field("tgt_vocab", f.sizes.tgt_vocab);
  field("num_encoder_layers", f.sizes.num_encoder_layers);
  field("num_decoder_layers", f.sizes.num_decoder_layers);
  field("max_len", f.sizes.max_len);
  field("pad_id", f.sizes.pad_id);
}

class OverridableTransformer : public OverridableCall<Transformer> {
 public:
  using OverridableCall<Transformer>::OverridableCall;
  bool defines_forward() const override {
    const InPython python;
    return static_cast<bool>(defined_call(object));
  }
};

}  // namespace

void bind_transformer_model(Functions& m) {
  Class<Transformer, nn::Module, OverridableTransformer, py::smart_holder> transformer(m, "Transformer", R"doc(
Encoder and decoder with embeddings, positions and the layer that gives logits.

A token's vector is ``sqrt(d_model)`` times its embedding plus the sines and cosines of its position. Each token of the
target sees those before it and the memory, which is the encoder's output.

Parameters
----------
src_vocab, tgt_vocab : int
    Sizes ``V`` of both vocabularies.
d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward : int
    Width, heads, layers, and inner width of the feed-forward networks.
dropout : float
    In training only.
activation : {"relu", "gelu"}
norm_first : bool
    Normalise before the sublayers; both stacks then end with a norm.
max_len : int
    Most positions.
pad_id : int
    Of padding, in source and target.

Attributes
----------
src_embedding, tgt_embedding, encoder, decoder, output : Module
attention_weights : list of Tensor
    ``(B, H, Tt, Ts)`` of each layer of the decoder: which words of the source each word of the target came from. Those
    of the encoder are ``encoder.attention_weights``.

Notes
-----
Called ``(src, tgt, *, src_valid_lens=None, tgt_valid_lens=None)`` with ids ``(B, Ts)`` and ``(B, Tt)``; returns logits
``(B, Tt, tgt_vocab)``. Lengths say how many ids of a row count; where they are not given, ``pad_id`` does not count.
Matrices are drawn Xavier-uniform, embeddings from N(0, 1 / d_model).

Raises
------
ValueError
    If ids are out of range, sequences longer than ``max_len`` or batches of different size.

References
----------
Vaswani et al., Attention Is All You Need, 2017.

Examples
--------
>>> model = qkv.models.Transformer(11, 13, d_model=16, nhead=4, num_encoder_layers=2, num_decoder_layers=2).eval()
>>> model([[3, 7, 1, 9], [5, 4, 0, 0]], [[1, 4, 6], [1, 9, 5]]).shape
(2, 3, 13)
>>> [(ids, score, attention)] = model.generate([[3, 7, 1, 9]], start_id=1, max_len=5)[0]
>>> len(ids), attention.shape
(5, (5, 4))
)doc");
  def_init<Fields<TransformerFields>>(
      transformer,
      "src_vocab, tgt_vocab, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, "
      "dropout=0.1, activation='relu', norm_first=False, max_len=5000, pad_id=0",
      [](TransformerFields f) {
        f.sizes.layer = f.options();
        return std::tuple(f.sizes);
      });
  op(transformer, "forward(src, tgt, *, src_valid_lens=None, tgt_valid_lens=None)",
     [](Transformer& self, const Array& src, const Array& tgt, Lengths src_lens, Lengths tgt_lens) {
       return self.Transformer::forward(src, tgt, src_lens, tgt_lens);
     });
  op<Transformer&, Integers, Lengths>(transformer, "encode(src, *, src_valid_lens=None)",
                                      "The memory ``(B, Ts, d_model)`` of ids ``(B, Ts)``.", &Transformer::encode);
  op(transformer, "decode(tgt, memory, *, tgt_valid_lens=None, memory_valid_lens=None, memory_attn_mask=None)",
     "Logits ``(B, Tt, tgt_vocab)`` of ids ``(B, Tt)``, given the memory and which of its rows count.",
     [](Transformer& self, const Array& ids, const Tensor& memory, Lengths lens, CallOptions& o, Call& call) {
       const ops::MaskSpec mask_spec = o.of_block(call, 0, count_of(memory)).memory;
       return without_gil([&] { return self.decode(ids, memory, self.target_keys(ids, lens), mask_spec); });
     });
  op(transformer, text("generate(src, *, src_valid_lens=None, start_id, ", kGenerate, ")"),
     "Targets for ids ``(B, Ts)``, as :func:`qkv.models.generate` gives them; attention is the mean over the last "
     "layer's heads.",
     [](Transformer& self, const Array& ids, Lengths lens, py::handle start_id, const GenerateArguments& arguments,
        Call& call) {
       const Index vocab = self.sizes.tgt_vocab;
       const GenerateOptions options = arguments.options(call.operation(), vocab);
       const Index start = token_from(start_id, call.operation(), "start_id", vocab);
       return sentences_from(without_gil([&] {
                               const nn::Evaluating evaluating;
                               const auto continuation = self.continuation(ids, lens);
                               return generate(*continuation, Array::full({ids.dim(0)}, DType::int64, start), options);
                             }),
                             options.length_penalty);
     });
  transformer.def_property("attention_weights",
                           [](Transformer& self) { return weights_of_blocks(self.decoder->parts()); });
}

}  // namespace qkv::bindings
