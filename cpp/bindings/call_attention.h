// Attentions that are written in Python.
#pragma once

#include "bindings/overridden_call.h"

namespace qkv::bindings {

// A call with the keywords that are set. The memory is projected by each call, which has no keyword for what another
// one projected; a forward without `cache` is called on all inputs so far, which the cache holds then. `keys_given`:
// keys and values are passed where they are the queries, too.
Tensor call_attention(const DefinedCall& forward, const nn::AttentionRecord* record, ops::Causal standard,
                      bool keys_given, const Tensor& queries, const Tensor& keys, const Tensor& values,
                      const nn::AttentionCall& call);

}  // namespace qkv::bindings
