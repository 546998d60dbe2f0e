// The Transformer's layers and stacks.
#include "bindings/attention_weights.h"
#include "bindings/bindings.h"
#include "bindings/overridden_call.h"
#include "core/error.h"
#include "nn/transformer.h"
#include "ops/ops.h"

namespace qkv::bindings {

using namespace nn;

template <> struct PythonForward<TransformerEncoderLayer> {
  using Signature = Tensor(const Tensor&, const Restriction&, ops::Causal, Tensor*);
  static Tensor call(const TransformerEncoderLayer&, const DefinedCall& forward, const Tensor& src,
                     const Restriction& restriction, ops::Causal causal, Tensor* weights) {
    Keywords keywords;
    keywords.add(restriction);
    keywords.add("is_causal", causal);
    return call_for_output(forward, py::make_tuple(src), keywords, weights);
  }
};

// There is no keyword for the projected memory, which each call projects then, and none for a cache: it holds the
// inputs so far, on all of which the layer is called. `shown` gets the weights that generation shows.
static Tensor call_decoder(const DefinedCall& forward, const AttentionRecord* shown, const Tensor& tgt,
                           const Tensor& memory, const TransformerDecoderLayer::Call& call) {
  Keywords keywords;
  keywords.add(call.self);
  keywords.add("is_causal", call.causal);
  keywords.add(call.memory, "memory_valid_lens", "memory_attn_mask");
  const auto whole = [&](const Tensor& all) {
    return call_for_output(forward, py::make_tuple(all, memory), keywords, call.weights);
  };
  const AttentionRecord::Own own(shown);  // if the forward calls the one that it inherits
  const Tensor y = call.cache == nullptr ? whole(tgt) : behind_inputs(forward, *call.cache, tgt, whole);
  if (call.cross != nullptr) {
    Array weights = own.weights();  // (B, H, L, Ls) of all inputs
    if (weights.defined())
      weights = packed(ops::slice(Tensor(weights), 2, weights.dim(2) - tgt.dim(1), weights.dim(2)).data());
    call.cross->keep(AttentionRecord::of(weights, {}));
  }
  return y;
}

template <> struct PythonForward<TransformerDecoderLayer> {
  using Signature = Tensor(const Tensor&, const Tensor&, const TransformerDecoderLayer::Call&);
  static Tensor call(const TransformerDecoderLayer& layer, const DefinedCall& forward, const Tensor& tgt,
                     const Tensor& memory, const TransformerDecoderLayer::Call& call) {
    return call_decoder(forward, &layer.multihead_attn->record, tgt, memory, call);
  }
};

// Of models, which ask for no weights.
template <> struct PythonForward<TransformerEncoder> {
  using Signature = Tensor(const Tensor&, const Restriction&, ops::Causal, Tensors*);
  static Tensor call(const TransformerEncoder&, const DefinedCall& forward, const Tensor& src,
                     const Restriction& restriction, ops::Causal causal, Tensors*) {
    Keywords keywords;
    keywords.add(restriction);
    keywords.add("is_causal", causal);
    return call_for_tensor(forward, py::make_tuple(src), keywords.all());
  }
};

template <> struct PythonForward<TransformerDecoder> {
  using Signature = Tensor(const Tensor&, const Tensor&, const TransformerDecoderLayer::Call&,
                           std::span<TransformerDecoder::LayerState>, Tensors*);
  static Tensor call(const TransformerDecoder& stack, const DefinedCall& forward, const Tensor& tgt,
                     const Tensor& memory, const TransformerDecoderLayer::Call& call,
                     std::span<TransformerDecoder::LayerState> states, Tensors*) {
    TransformerDecoderLayer::Call whole = call;
    if (!states.empty()) {  // the first layer's cache holds the inputs of the stack, the last one's record its weights
      whole.cache = states.front().cache.get();
      whole.cross = &states.back().cross;
    }
    const auto parts = stack.parts();
    return call_decoder(forward, parts.empty() ? nullptr : &parts.back()->multihead_attn->record, tgt, memory, whole);
  }
};

namespace {

TransformerArguments transformer_arguments(Index d_model, Index nhead, Index dim_feedforward, double dropout,
                                           std::string activation, double layer_norm_eps, bool norm_first, bool bias) {
  return {d_model, nhead, dim_feedforward, dropout, std::move(activation), layer_norm_eps, norm_first, bias};
}

// The constructor arguments of both Transformer layers.
template <class Class> void def_transformer_init(Class& layer) {
  using Layer = typename Class::type;
  layer.def(py::init(
                [](Index m, Index h, Index f, double p, std::string a, double e, bool first, bool bias) {
                  return std::make_unique<Layer>(transformer_arguments(m, h, f, p, std::move(a), e, first, bias));
                },
                [](Index m, Index h, Index f, double p, std::string a, double e, bool first, bool bias) {
                  return std::make_unique<OverridableCall<Layer>>(
                      transformer_arguments(m, h, f, p, std::move(a), e, first, bias));
                }),
            py::arg("d_model"), py::arg("nhead"), py::arg("dim_feedforward") = 2048, py::arg("dropout") = 0.1,
            py::arg("activation") = "relu", py::arg("layer_norm_eps") = 1e-5, py::arg("norm_first") = false,
            py::arg("bias") = true);
}

// The weights that a call may be asked for: those of a layer, or of each layer of a stack.
template <class Self>
using Asked = std::conditional_t<std::is_base_of_v<TransformerEncoder, std::decay_t<Self>> ||
                                     std::is_base_of_v<TransformerDecoder, std::decay_t<Self>>,
                                 Tensors, Tensor>;

// num_layers copies of a layer, made as Python makes deep copies.
template <class Layer>
std::vector<std::shared_ptr<Layer>> copies(const py::object& layer, Index count, const char* name) {
  if (count < 1) fail_value(name, ": num_layers must be at least 1; got ", count);
  if (!py::isinstance<Layer>(layer))
    fail_type(name, ": layer must be a ", std::string(py::str(py::type::of<Layer>().attr("__name__"))), "; got ",
              std::string(py::str(py::type::of(layer).attr("__name__"))));
  const py::object deepcopy = py::module_::import("copy").attr("deepcopy");
  std::vector<std::shared_ptr<Layer>> layers;
  for (Index i = 0; i < count; ++i) layers.push_back(deepcopy(layer).template cast<std::shared_ptr<Layer>>());
  return layers;
}

template <class Stack, class Layer, class Class> void def_stack_init(Class& stack, const char* name) {
  const auto norm_from = [name](const py::object& norm) -> ModulePtr {
    if (norm.is_none()) return nullptr;
    if (!py::isinstance<Module>(norm))
      fail_type(name, ": norm must be a Module; got ", std::string(py::str(py::type::of(norm).attr("__name__"))));
    return norm.cast<ModulePtr>();
  };
  stack.def(py::init<>())
      .def(py::init(
               [=](const py::object& layer, Index count, const py::object& norm) {
                 return std::make_unique<Stack>(copies<Layer>(layer, count, name), norm_from(norm));
               },
               [=](const py::object& layer, Index count, const py::object& norm) {
                 return std::make_unique<OverridableCall<Stack>>(copies<Layer>(layer, count, name), norm_from(norm));
               }),
           py::arg("layer"), py::arg("num_layers"), py::arg("norm") = py::none());
}

}  // namespace

void bind_transformer(py::module_& m) {
  CalledLayerClass<TransformerEncoderLayer> encoder_layer(m, "TransformerEncoderLayer",
                                                          (std::string(R"doc(
Self-attention and a feed-forward network, each with a residual connection and a LayerNorm.

``norm_first=False``: ``y = norm1(x + attention(x))``, ``norm2(y + ffn(y))``; True: ``y = x + attention(norm1(x))``,
``y + ffn(norm2(y))``.

Parameters
----------
d_model, nhead, dim_feedforward : int
    Width, heads, and inner width of the feed-forward network.
dropout : float
    Of weights, inner features and both sublayers' outputs, in training only.
activation : {"relu", "gelu"}
layer_norm_eps : float
norm_first : bool
    Normalise before the sublayers instead of behind them.
bias : bool
    Biases of all parts.

References
----------
Vaswani et al., 2017; Xiong et al., On Layer Normalization in the Transformer Architecture, 2020.

Examples
--------
>>> qkv.nn.TransformerEncoderLayer(16, 4).eval()(np.ones((2, 5, 16)), valid_lens=[5, 3]).shape
(2, 5, 16)
)doc") + kMaskNote)
                                                              .c_str());
  def_transformer_init(encoder_layer);
  const auto encode = [](auto& self, py::handle src, py::handle valid_lens, py::handle attn_mask, py::handle is_causal,
                         bool return_weights, const char* name) {
    Call call(name);
    const Tensor x = call.floating(src, "src");
    const Restriction restriction = restriction_from(call, valid_lens, attn_mask, py::none(), count_of(x));
    const ops::Causal causal = causal_from(is_causal, name);
    using Layer = std::decay_t<decltype(self)>;
    Asked<Layer> weights;
    const Tensor y =
        without_gil([&] { return self.Layer::forward(x, restriction, causal, return_weights ? &weights : nullptr); });
    return return_weights ? py::object(py::make_tuple(y, weights)) : py::cast(y);
  };
  encoder_layer.def(
      "forward",
      [encode](TransformerEncoderLayer& self, py::handle src, py::handle valid_lens, py::handle attn_mask,
               py::handle is_causal, bool return_weights) {
        return encode(self, src, valid_lens, attn_mask, is_causal, return_weights, "TransformerEncoderLayer");
      },
      py::arg("src"), py::kw_only(), py::arg("valid_lens") = py::none(), py::arg("attn_mask") = py::none(),
      py::arg("is_causal") = false, py::arg("return_weights") = false);

  CalledLayerClass<TransformerDecoderLayer> decoder_layer(m, "TransformerDecoderLayer",
                                                          (std::string(R"doc(
Self-attention over the target, attention from the target to the memory, and a feed-forward network.

Parameters
----------
d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias
    As in :class:`TransformerEncoderLayer`.

References
----------
Vaswani et al., Attention Is All You Need, 2017.

Examples
--------
>>> layer = qkv.nn.TransformerDecoderLayer(16, 4).eval()
>>> layer(np.ones((2, 3, 16)), np.ones((2, 5, 16)), is_causal=True, memory_valid_lens=[5, 3]).shape
(2, 3, 16)
)doc") + kMaskNote)
                                                              .c_str());
  def_transformer_init(decoder_layer);
  const auto decode = [](auto& self, py::handle tgt, py::handle memory, py::handle valid_lens, py::handle attn_mask,
                         py::handle is_causal, py::handle memory_valid_lens, py::handle memory_attn_mask,
                         bool return_weights, const char* name) {
    Call call(name);
    const Tensor x = call.floating(tgt, "tgt"), source = call.floating(memory, "memory");
    TransformerDecoderLayer::Call options;
    options.self = restriction_from(call, valid_lens, attn_mask, py::none(), count_of(x));
    options.memory =
        restriction_from(call, memory_valid_lens, memory_attn_mask, py::none(), count_of(source), kMemoryNames);
    options.causal = causal_from(is_causal, name);
    using Layer = std::decay_t<decltype(self)>;
    Asked<Layer> weights;
    const Tensor y = without_gil([&] {
      if constexpr (std::is_same_v<decltype(weights), Tensors>) {
        return self.Layer::forward(x, source, options, {}, return_weights ? &weights : nullptr);
      } else {
        if (return_weights) options.weights = &weights;
        return self.Layer::forward(x, source, options);
      }
    });
    return return_weights ? py::object(py::make_tuple(y, weights)) : py::cast(y);
  };
  const auto def_decode = [&](auto& cls, const char* name) {
    using Layer = typename std::decay_t<decltype(cls)>::type;
    cls.def(
        "forward",
        [decode, name](Layer& self, py::handle tgt, py::handle memory, py::handle valid_lens, py::handle attn_mask,
                       py::handle is_causal, py::handle memory_valid_lens, py::handle memory_attn_mask,
                       bool return_weights) {
          return decode(self, tgt, memory, valid_lens, attn_mask, is_causal, memory_valid_lens, memory_attn_mask,
                        return_weights, name);
        },
        py::arg("tgt"), py::arg("memory"), py::kw_only(), py::arg("valid_lens") = py::none(),
        py::arg("attn_mask") = py::none(), py::arg("is_causal") = false, py::arg("memory_valid_lens") = py::none(),
        py::arg("memory_attn_mask") = py::none(), py::arg("return_weights") = false);
  };
  def_decode(decoder_layer, "TransformerDecoderLayer");

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
  def_stack_init<TransformerEncoder, TransformerEncoderLayer>(encoder, "TransformerEncoder");
  encoder
      .def(
          "forward",
          [encode](TransformerEncoder& self, py::handle src, py::handle valid_lens, py::handle attn_mask,
                   py::handle is_causal, bool return_weights) {
            return encode(self, src, valid_lens, attn_mask, is_causal, return_weights, "TransformerEncoder");
          },
          py::arg("src"), py::kw_only(), py::arg("valid_lens") = py::none(), py::arg("attn_mask") = py::none(),
          py::arg("is_causal") = false, py::arg("return_weights") = false)
      .def_property_readonly("attention_weights", [](TransformerEncoder& self) {
        return weights_of_layers(self.parts(), [](TransformerEncoderLayer& layer) { return layer.self_attn; });
      });

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

Examples
--------
>>> decoder = qkv.nn.TransformerDecoder(qkv.nn.TransformerDecoderLayer(16, 4), 2).eval()
>>> decoder(np.ones((2, 3, 16)), np.ones((2, 5, 16)), is_causal=True).shape
(2, 3, 16)
)doc");
  def_stack_init<TransformerDecoder, TransformerDecoderLayer>(decoder, "TransformerDecoder");
  def_decode(decoder, "TransformerDecoder");
  decoder.def_property_readonly("attention_weights", [](TransformerDecoder& self) {
    return weights_of_layers(self.parts(), [](TransformerDecoderLayer& layer) { return layer.multihead_attn; });
  });
}

}  // namespace qkv::bindings
