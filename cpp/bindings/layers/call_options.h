// What calls of attention layers and blocks take beside their inputs, each by its name.
#pragma once

#include "bindings/values/operation.h"
#include "nn/block.h"

namespace qkv::bindings {

// valid_lens, attn_mask, dropout_keep, score_mod, mask_mod, those of the memory with "memory_" before them, is_causal,
// cache and return_weights: what the head of a forward says of them.
struct CallOptions {
  ops::MaskSpec self = {}, memory = {};
  std::optional<ops::Causal> causal = {};
  py::handle cache = Py_None;
  bool return_weights = false;

  static void describe(Parameter& p, std::string_view name);
  std::size_t take(Call& call, PyObject* const* values, std::span<const Parameter> parameters);
  // The call of an attention or a block, once. Warns of masks of so many keys, after those of the cache, that most
  // likely mean another thing.
  nn::AttentionCall of_attention(const Call& call, Index keys);
  nn::BlockCall of_block(const Call& call, Index keys, Index memory_keys = 0);
  // forward(given), with the weights if they were asked for.
  template <class Given, class F> OneOrPair run(Given&& given, F forward) const {
    OneOrPair y;
    if (return_weights) given.weights = &y.second;
    y.first = without_gil([&] { return forward(given); });
    return y;
  }
};

// The KVCache that a call was given, or null for None.
nn::KVCache* cache_from(py::handle cache, const char* layer, const char* wanted);

}  // namespace qkv::bindings
