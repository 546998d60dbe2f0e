// Blocks and stacks of them, whose forward a Python subclass may define.
#pragma once

#include "bindings/layers/attention_weights.h"
#include "bindings/modules/overridden_call.h"
#include "nn/transformer.h"

namespace qkv::bindings {

// A call of Python of a block or a stack. There is no keyword for the projected memory, which each call projects then.
// A forward without `cache` is called on all inputs so far, which the cache holds then. `shown` gets the weights that
// generation shows.
Tensor call_block(const DefinedCall& forward, const nn::AttentionRecord* shown, const Tensor& x, const Tensor& memory,
                  const nn::BlockCall& call);

template <std::derived_from<nn::Block> Layer> struct PythonForward<Layer> {
  static Tensor call(const Layer& layer, const DefinedCall& forward, const Tensor& x, const Tensor& memory,
                     const nn::BlockCall& call) {
    return call_block(forward, layer.shown_record(), x, memory, call);
  }
};

// The weights of each block's last call, in a list.
inline py::list weights_of_blocks(const std::vector<std::shared_ptr<nn::Block>>& blocks) {
  return weights_of_layers(blocks, [](nn::Block& block) { return block.shown_attention(); });
}

// What the constructors of the Transformer and of its layers take: one dropout and one bias for all parts.
struct LayerFields : nn::BlockOptions {
  bool norm_first = false;
  py::object self_attn;  // in the place of `attention`
  nn::BlockOptions options() const;
};
template <class F> void for_fields(LayerFields& f, F field) {
  field("d_model", f.attention.embed_dim);
  field("nhead", f.attention.num_heads);
  field("dim_feedforward", f.inner);
  field("dropout", f.dropout);
  field("activation", f.activation);
  field("layer_norm_eps", f.norm_eps);
  field("norm_first", f.norm_first);
  field("bias", f.bias);
  field("attention", f.self_attn);
  field("norm", f.norm);
  field("gated", f.gated);
  for_fields(f.attention.scores, field);
}

// A ModelCache or a list of one KVCache for each of the layers; null for None.
std::shared_ptr<nn::ModelCache> model_cache_from(py::handle cache, const char* model, Index layers);

}  // namespace qkv::bindings
