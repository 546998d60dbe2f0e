// The Transformer's layers and stacks.
#include "bindings/bindings.h"
#include "bindings/layers/block.h"
#include "bindings/operations/formula_source.h"
#include "core/error.h"
#include "ops/ops.h"

namespace qkv::bindings {

using namespace nn;

Tensor call_block(const DefinedCall& forward, const AttentionRecord* shown, const Tensor& x, const Tensor& memory,
                  const BlockCall& call) {
  Keywords keywords;
  keywords.add(call.self);
  add_formula(keywords, call.self.formula_source);
  add_formula(keywords, call.memory.formula_source, kMemoryFormulas);
  keywords.add("is_causal", call.causal.value_or(ops::Causal::none));
  keywords.add(call.memory, "memory_valid_lens", "memory_attn_mask");
  const auto whole = [&](const Tensor& all) {
    py::list arguments;
    arguments.append(all);
    if (memory.defined()) arguments.append(memory);
    return call_for_output(forward, py::tuple(arguments), keywords, call.weights);
  };
  const AttentionRecord::Capture own(shown);  // if the forward calls the one that it inherits
  Tensor y;
  if (call.cache != nullptr && !memory.defined() && forward.takes("cache")) {
    keywords.add("cache", py::cast(call.cache));
    const Index before = call.cache->length();
    y = whole(x);
    check_appended(forward, *call.cache, before, x.dim(1));
  } else {
    y = call.cache == nullptr ? whole(x) : behind_inputs(type_name(forward.self), *call.cache, x, whole);
  }
  if (call.cross != nullptr) {
    Array weights = own.weights();  // (B, H, L, Ls) of all inputs
    if (weights.defined())
      weights = packed(ops::slice(Tensor(weights), 2, weights.dim(2) - x.dim(1), weights.dim(2)).data());
    call.cross->keep(AttentionRecord::of(weights, {}));
  }
  return y;
}

BlockOptions LayerFields::options() const {
  BlockOptions o = *this;
  o.inner_dropout = o.attention.dropout = dropout;
  o.norm_bias = o.attention.bias = bias;
  o.placement = norm_first ? Placement::pre : Placement::post;
  return o;
}

std::shared_ptr<ModelCache> model_cache_from(py::handle cache, const char* model, Index layers) {
  if (cache.is_none()) return nullptr;
  if (py::isinstance<ModelCache>(cache)) return cache.cast<std::shared_ptr<ModelCache>>();
  if (!py::isinstance<py::sequence>(cache))
    fail_type(model, ": cache must be a list of KVCaches, one for each layer; got ", described(cache));
  std::vector<std::shared_ptr<KVCache>> caches;
  for (const py::handle one : cache) {
    if (cache_from(one, model, "cache must hold KVCaches") == nullptr)
      fail_type(model, ": cache must hold KVCaches; got None");
    caches.push_back(one.cast<std::shared_ptr<KVCache>>());
  }
  if (caches.empty()) fail_value(model, ": cache must hold one KVCache for each of the ", layers, " layers; got none");
  return std::make_shared<ModelCache>(caches);
}

// Of models, which ask for no weights. The first layer's cache holds the inputs of the stack, the last one's record its
// weights.
template <class Stack> struct StackForward {
  static Tensor call(const Stack& stack, const DefinedCall& forward, const Tensor& x, const Tensor& memory,
                     const BlockCall& call, ModelCache* cache, Tensors*) {
    BlockCall whole = call;
    if (cache != nullptr) {
      whole.cache = cache->layers.front().cache.get();
      whole.cross = &cache->layers.back().cross;
    }
    const auto parts = stack.parts();
    return call_block(forward, parts.empty() ? nullptr : parts.back()->shown_record(), x, memory, whole);
  }
};
template <> struct PythonForward<TransformerEncoder> : StackForward<TransformerEncoder> {};
template <> struct PythonForward<TransformerDecoder> : StackForward<TransformerDecoder> {};

namespace {

// The constructor arguments of both Transformer layers. By position they are PyTorch's, whose next is batch_first.
template <class Class> void def_transformer_init(Class& layer) {
  def_init<Fields<LayerFields>>(
      layer,
      text("d_model, nhead, dim_feedforward=2048, dropout=0.1, activation='relu', layer_norm_eps=1e-5, "
           "*, norm_first=False, bias=True, attention=None, norm='layer', gated=False",
           parameters_of<ScoreOptions>()),
      [](const LayerFields& f, Call& call) {
        if (f.self_attn.is_none()) return std::tuple(f.options(), ModulePtr());
        if (!py::isinstance<Module>(f.self_attn))
          fail_type(call.operation(), ": attention must be a Module; got ", described(f.self_attn));
        if (f.attention.scores != ScoreOptions())
          fail_value(call.operation(), ": ", names_of<ScoreOptions>(),
                     " must be given to attention because it computes the scores; got both");
        return std::tuple(f.options(), f.self_attn.cast<ModulePtr>());
      });
}

// num_layers copies of a layer, made as Python makes deep copies.
template <class Layer>
std::vector<std::shared_ptr<Layer>> copies(const py::object& layer, Index count, const char* name) {
  if (count < 1) fail_value(name, ": num_layers must be at least 1; got ", count);
  if (!py::isinstance<Layer>(layer))
    fail_type(name, ": layer must be a ", std::string(py::str(py::type::of<Layer>().attr("__name__"))), "; got ",
              type_name(layer));
  const py::object deepcopy = py::module_::import("copy").attr("deepcopy");
  std::vector<std::shared_ptr<Layer>> layers;
  for (Index i = 0; i < count; ++i) layers.push_back(deepcopy(layer).template cast<std::shared_ptr<Layer>>());
  return layers;
}

template <class Layer, class Class> void def_stack_init(Class& stack) {
  def_init(stack, "");
  def_init<py::object, Index, py::object>(stack, "layer, num_layers, norm=None",
                                          [](const py::object& layer, Index count, const py::object& norm, Call& call) {
                                            if (!norm.is_none() && !py::isinstance<Module>(norm))
                                              fail_type(call.operation(), ": norm must be a Module; got ",
                                                        type_name(norm));
                                            return std::tuple(copies<Layer>(layer, count, call.operation()),
                                                              norm.is_none() ? ModulePtr() : norm.cast<ModulePtr>());
                                          });
}

// A call of a layer or a stack of the core.
template <class Layer>
py::object called(Layer& self, const Tensor& x, const Tensor& memory, CallOptions& o, Call& call) {
  if constexpr (std::is_base_of_v<Block, Layer>) {
    const auto forward = [&](const BlockCall& given) { return self.Layer::forward(x, memory, given); };
    return shown_result(call, o.run(o.of_block(call, count_of(x), count_of(memory)), forward));
  } else {
    const auto cache = model_cache_from(std::exchange(o.cache, Py_None), call.operation(), self.layers->length());
    const BlockCall given = o.of_block(call, count_of(x) + (cache ? cache->length() : 0), count_of(memory));
    Tensors weights;  // of each layer
    const Tensor y = without_gil(
        [&] { return self.Layer::forward(x, memory, given, cache.get(), o.return_weights ? &weights : nullptr); });
    return o.return_weights ? py::object(py::make_tuple(y, weights)) : py::cast(y);
  }
}

template <class Class> void def_encode(Class& cls) {
  using Layer = typename Class::type;
  op(cls,
     "forward(src, *, valid_lens=None, attn_mask=None, is_causal=False, return_weights=False, score_mod=None, "
     "mask_mod=None)",
     [](Layer& self, const Tensor& src, CallOptions& o, Call& call) { return called(self, src, Tensor(), o, call); });
}

// `more`: what else the call takes.
template <class Class> void def_decode(Class& cls, const char* more) {
  using Layer = typename Class::type;
  op(cls,
     text("forward(tgt, memory, *, valid_lens=None, attn_mask=None, is_causal=False, memory_valid_lens=None, "
          "memory_attn_mask=None, return_weights=False, score_mod=None, mask_mod=None, memory_score_mod=None, "
          "memory_mask_mod=None",
          more, ")"),
     [](Layer& self, const Tensor& tgt, const Tensor& memory, CallOptions& o, Call& call) {
       return called(self, tgt, memory, o, call);
     });
}

template <class Class> void def_block_weights(Class& stack) {
  stack.def_property("attention_weights", [](typename Class::type& self) { return weights_of_blocks(self.parts()); });
}

}  // namespace

void bind_transformer(Functions& m) {
  CalledLayerClass<TransformerEncoderLayer> encoder_layer(m, "TransformerEncoderLayer", std::string(R"doc(
Self-attention and a feed-forward network, each with a residual connection and a norm.

``norm_first=False``: ``y = norm1(x + attention(x))``, ``norm2(y + ffn(y))``; True: ``y = x + attention(norm1(x))``,
``y + ffn(norm2(y))``.

Parameters
----------
d_model, nhead, dim_feedforward : int
    Width, heads, and inner width of the feed-forward network.
dropout : float
    Of weights, inner features and both sublayers' outputs, in training only.
activation : {"relu", "gelu", "gelu_tanh", "silu"}
layer_norm_eps : float
norm_first : bool
    Normalise before the sublayers instead of behind them.
bias : bool
    Biases of all parts.
attention : Module, optional
    Stands in for ``self_attn``: an attention of qkv.nn, a subclass of :class:`Attention`, or a module of yours whose
    ``forward`` takes ``(x)`` or ``(queries, keys, values)`` and those keywords that calls pass, of ``valid_lens``,
    ``attn_mask``, ``is_causal``, ``cache`` and ``return_weights``.
norm : {"layer", "rms"}
    :class:`LayerNorm` or :class:`RMSNorm`, with ``layer_norm_eps``.
gated : bool
    ``ffn(x) = linear2(activation(linear_gate(x)) * linear1(x))`` instead of ``linear2(activation(linear1(x)))``.
)doc") + names_of<ScoreOptions>() + R"doc(
    Of ``self_attn``, as in :class:`MultiHeadAttention`.

References
----------
Vaswani et al., 2017; Xiong et al., On Layer Normalization in the Transformer Architecture, 2020; Shazeer, GLU Variants
Improve Transformer, 2020.

Examples
--------
>>> qkv.nn.TransformerEncoderLayer(16, 4).eval()(np.ones((2, 5, 16)), valid_lens=[5, 3]).shape
(2, 5, 16)
)doc" + kMaskNote);
  def_transformer_init(encoder_layer);
  def_encode(encoder_layer);

  CalledLayerClass<TransformerDecoderLayer> decoder_layer(m, "TransformerDecoderLayer", std::string(R"doc(
Self-attention over the target, attention from the target to the memory, and a feed-forward network.

Parameters
----------
d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, norm, gated
    As in :class:`TransformerEncoderLayer`.
attention, )doc") + names_of<ScoreOptions>() + R"doc(
    Likewise, of the self-attention alone.

References
----------
Vaswani et al., Attention Is All You Need, 2017.

Examples
--------
>>> layer = qkv.nn.TransformerDecoderLayer(16, 4).eval()
>>> layer(np.ones((2, 3, 16)), np.ones((2, 5, 16)), is_causal=True, memory_valid_lens=[5, 3]).shape
(2, 3, 16)
)doc" + kMaskNote);
  def_transformer_init(decoder_layer);
  def_decode(decoder_layer, "");

  CalledLayerClass<TransformerEncoder> encoder(m, "TransformerEncoder", R"doc(
Copies of an encoder layer one after the other, then ``norm`` if there is one.

Parameters
----------
layer : TransformerEncoderLayer
    Is copied ``num_layers`` times, with its parameters as they are.
num_layers : int
norm : Module, optional

Attributes
----------
layers : ModuleList
attention_weights : list of Tensor
    ``(B, H, L, L)`` of each layer.

Examples
--------
>>> encoder = qkv.nn.TransformerEncoder(qkv.nn.TransformerEncoderLayer(16, 4), 2).eval()
>>> encoder(np.ones((2, 5, 16))).shape
(2, 5, 16)
)doc");
  def_stack_init<TransformerEncoderLayer>(encoder);
  def_encode(encoder);
  def_block_weights(encoder);

  CalledLayerClass<TransformerDecoder> decoder(m, "TransformerDecoder", R"doc(
Copies of a decoder layer one after the other, then ``norm`` if there is one.

Parameters
----------
layer : TransformerDecoderLayer
    Is copied ``num_layers`` times, with its parameters as they are.
num_layers : int
norm : Module, optional

Attributes
----------
layers : ModuleList
attention_weights : list of Tensor
    ``(B, H, Lt, Ls)`` of each layer's attention to the memory.

Notes
-----
``cache`` is a list of one :class:`KVCache` per layer: ``tgt`` then follows the tokens in it, which ``valid_lens`` and masks
count, too.

Examples
--------
>>> decoder = qkv.nn.TransformerDecoder(qkv.nn.TransformerDecoderLayer(16, 4), 2).eval()
>>> decoder(np.ones((2, 3, 16)), np.ones((2, 5, 16)), is_causal=True).shape
(2, 3, 16)
)doc");
  def_stack_init<TransformerDecoderLayer>(decoder);
  def_decode(decoder, ", cache=None");
  def_block_weights(decoder);
}

}  // namespace qkv::bindings
