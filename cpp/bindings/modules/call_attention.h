// Attentions that are written in Python.
#pragma once

#include "bindings/modules/overridden_call.h"
#include "nn/ragged_rows.h"

namespace qkv::bindings {

// What attention of whole batches is told in place of ragged rows: which keys (B, 1, 1, L) count, and of what layers
// share the distances, which are those in the sequence.
struct WholeBatch {
  WholeBatch(const nn::RaggedRows& rows, const nn::SharedPositions* given);
  nn::MaskSpec mask_spec;
  nn::SharedPositions shared;
};

// A call with the keywords that are set. The memory is projected by each call, which has no keyword for what another
// one projected; a forward without `cache` is called on all inputs so far, which the cache holds then. `keys_given`:
// keys and values are passed where they are the queries, too.
Tensor call_attention(const DefinedCall& forward, const nn::AttentionRecord* record, ops::Causal standard,
                      bool keys_given, const Tensor& queries, const Tensor& keys, const Tensor& values,
                      const nn::AttentionCall& call);

}  // namespace qkv::bindings
