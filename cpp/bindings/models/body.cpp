// Bodies of models, which are made from a configuration's options.
#include "models/body.h"
#include "bindings/bindings.h"
#include "bindings/layers/attention_weights.h"
#include "bindings/layers/block.h"
#include "bindings/models/decoding.h"
#include "bindings/modules/call_attention.h"
#include "core/error.h"
#include "nn/init.h"

namespace qkv::bindings {

using namespace models;

// A call of Python of a block, on whole batches. What the layers of a model share reaches a forward that it inherits.
template <> struct PythonForward<TransformerBlock> {
  static Tensor call(const TransformerBlock& layer, const DefinedCall& forward, const Tensor& x, const Tensor& memory,
                     const nn::BlockCall& call) {
    if (call.rows == nullptr) {
      const nn::SharedPositions::Scope lent(&layer, call.shared);
      return call_block(forward, layer.shown_record(), x, memory, call);
    }
    const WholeBatch batch(*call.rows, call.shared);
    nn::BlockCall whole = call;
    whole.rows = nullptr;
    whole.self = batch.mask_spec;
    const nn::SharedPositions::Scope lent(&layer, &batch.shared);
    return kept_rows(call_block(forward, layer.shown_record(), unpacked(x, *call.rows), memory, whole), *call.rows);
  }
};

namespace {

// A member from a value of Python; a TypeError or ValueError that names `owner` and the option.
struct Reader {
  const char *owner, *name;
  py::handle value;

  std::string string() const { return of_class<py::str>(owner, name, "be a str", value); }
  template <class T> void read(T& member) const {
    if constexpr (kOneOf<T, Index, double>) {
      if (value.is_none()) fail_type(owner, ": ", name, " must be a number; got None");
      if constexpr (std::is_same_v<T, Index>) member = *index_from(value, owner, name);
      else member = required_number_from(value, owner, name);
    } else if constexpr (std::is_same_v<T, bool>) {
      member = of_class<py::bool_>(owner, name, "be a bool", value);
    } else {
      Call call(owner);
      Argument<T> argument;
      argument.load(call, value.ptr(), name);
      member = argument.get();
    }
  }
  void read(std::string& member) const { member = string(); }
  void read(nn::NormKind& member) const { member = nn::norm_named(owner, name, string()); }
  void read(nn::Placement& member) const { member = nn::placement_named(owner, string()); }
  void read(PositionRule& member) const { member = position_rule_named(owner, string()); }
  void read(nn::Disentangled& member) const {
    read_all(owner, of_class<py::dict>(owner, name, "be a dict", value), member, text(" of ", name));
  }
  template <class T> void read(std::optional<T>& member) const {
    if constexpr (kOneOf<T, nn::RelativeBias, std::pair<Index, Index>>) read<std::optional<T>>(member);
    else if (value.is_none()) member.reset();
    else read(member.emplace());
  }

  // Those of a dict, which may hold no others.
  template <class Options>
  static void read_all(const char* owner, const py::dict& options, Options& all, const std::string& of = "") {
    const py::dict given = options.attr("copy")();
    for_fields(all, [&](const char* name, auto& member) {
      if (const py::object value = given.attr("pop")(name, py::none()); options.contains(name))
        Reader{owner, name, value}.read(member);
    });
    if (!given.empty()) fail_type(owner, ": unknown option ", std::string(py::str(given.begin()->first)), of);
  }
};

nn::BlockOptions block_from(const py::dict& options, std::optional<Index> d_model = {}) {
  nn::BlockOptions o = block_defaults();
  if (d_model) options["d_model"] = *d_model;
  Reader::read_all("TransformerBlock", options, o);
  return o;
}

// values=False, which is taken out of a call's keywords, leaves parameters undefined.
template <class F> auto with_or_without_values(const py::dict& given, F make) {
  std::optional<nn::SkipInit> skip;
  if (!given.attr("pop")("values", true).cast<bool>()) skip.emplace();
  return make();
}

template <class Made> std::unique_ptr<Made> made_body(const py::object& layers, const py::kwargs& given) {
  return with_or_without_values(given, [&] {
    BodyOptions o;
    Reader::read_all("TransformerBody", given, o);
    std::vector<nn::BlockOptions> blocks;
    for (const py::handle layer : layers.is_none() ? py::object(py::tuple()) : layers) {
      const auto options = of_class<py::dict>("TransformerBody", "layers", "hold a dict of options for each", layer);
      blocks.push_back(block_from(options.attr("copy")(), o.d_model));
    }
    return std::make_unique<Made>(o, blocks);
  });
}

Array any_array(Call& call, py::handle value, const char* name) {
  return value.is_none() ? Array() : nn::snapshot(packed(call.mask(value, name).data()));
}

// A mask of a body's for one of its blocks.
nn::MaskSpec of_keys(const char* block, const Tensor& x, const Array& mask, const nn::MaskSpec& given) {
  if (x.rank() != 3 || given.attn_mask.defined())
    fail_value(block, ": attention_mask must be given with x (B, L, M) and without attn_mask; got x ", x.shape());
  return padded_rows(block, x.dim(0), x.dim(1), given.valid_lens, mask, false).mask_spec;
}

}  // namespace

void bind_body(Functions& m) {
  Class<nn::ModelCache, std::shared_ptr<nn::ModelCache>> model_cache(m, "ModelCache",
                                                                     "What decoding keeps for each layer.");
  def_init<Index>(model_cache, "layers", [](Index layers) {
    nn::check_positive("ModelCache", {{"layers", layers}});
    return std::tuple(static_cast<std::size_t>(layers));
  });
  model_cache.def("__len__", &nn::ModelCache::length)
      .def("__bool__", [](const nn::ModelCache&) { return true; })
      .def("ModelCache: reorder(indices)", "Batch entry i continues what was entry indices[i], of the memory, too.",
           [](nn::ModelCache& self, Integers indices) { self.reorder(indices, true); });

  CalledLayerClass<TransformerBlock> block(m, "TransformerBlock", "A block of TransformerBody.");
  def_init<py::kwargs>(block, "", []<class Made>(std::type_identity<Made>, const py::kwargs& given) {
    return with_or_without_values(given, [&] { return std::make_unique<Made>(block_from(given)); });
  });
  op(block,
     "forward(x, memory=None, *, attention_mask=None, valid_lens=None, attn_mask=None, is_causal=None, "
     "memory_valid_lens=None, memory_attn_mask=None, cache=None, return_weights=False)",
     [](TransformerBlock& self, const Tensor& x, FloatingOrNone memory, As<any_array> mask, CallOptions& o,
        Call& call) {
       if (mask.defined()) o.self = of_keys(call.operation(), x, mask, o.self);
       return o.run(o.of_block(call, count_of(x), count_of(memory)),
                    [&](const auto& given) { return self.TransformerBlock::forward(x, memory, given); });
     });
  LayerClass<TransformerBody> body(m, "TransformerBody",
                                   "Embeddings, blocks one after the other, a norm: the body of a model.");
  def_init<py::object, py::kwargs>(
      body, "layers=None", []<class Made>(std::type_identity<Made>, const py::object& layers, const py::kwargs& given) {
        return made_body<Made>(layers, given);
      });
  body.def_property("attention_weights",
                    [](TransformerBody& self) {
                      return weights_of_layers(self.parts(), [](nn::Block& part) { return part.parts().self_attn; });
                    })
      .def_property("memory_weights", [](TransformerBody& self) {
        return weights_of_layers(self.parts(), [](nn::Block& part) { return part.shown_attention(); });
      });
  op(body,
     "forward(input_ids=None, *, inputs=None, attention_mask=None, valid_lens=None, token_type_ids=None, memory=None, "
     "memory_mask=None, memory_valid_lens=None, cache=None, skip_padding=False, output_hidden_states=False)",
     [](TransformerBody& self, py::handle first, FloatingOrNone named, As<any_array> mask, Lengths lens,
        IntegersOrNone types, FloatingOrNone memory, As<any_array> memory_mask, Lengths memory_lens, py::handle cache,
        bool skip_padding, bool hidden_states, Call& call) {
       // What comes first are the inputs of a body without ids.
       const bool unnamed = !self.options.vocab_size && !named.defined() && !first.is_none();
       const Array ids = unnamed || first.is_none() ? Array() : call.integers(first, "input_ids");
       const Tensor inputs = unnamed ? call.floating(first, "inputs") : named;
       const auto own = model_cache_from(cache, call.operation(), self.parts().size());
       Tensors states;
       const Tensor y = without_gil([&] {
         return self.forward({ids, inputs, mask, lens, types, memory, memory_mask, memory_lens, skip_padding},
                             own.get(), hidden_states ? &states : nullptr);
       });
       return hidden_states ? py::object(py::make_tuple(y, states)) : py::cast(y);
     });
}

}  // namespace qkv::bindings
