// Which rows of a padded batch BERT computes, and which keys they see.
#pragma once

#include "nn/ragged_rows.h"

namespace qkv::models {

// Without packing every layer sees (B, L, M) and a restriction on keys. Packed, the rows of padding are left out.
struct BertRows : nn::RaggedRows {
  nn::MaskSpec mask_spec;  // not packed
  bool packed() const { return kept.defined(); }
};
inline nn::AttentionCall attention_call(const BertRows& rows) {
  return {.mask_spec = rows.mask_spec, .rows = rows.packed() ? &rows : nullptr};
}

// valid_lens int64 (B,) or (B, L); mask boolean or of the integers 0 and 1, (B, L), (B, L, L) or with 4 axes. Both may
// be undefined, and both must allow a key.
BertRows bert_rows(Index batch, Index length, const Array& valid_lens, const Array& mask, bool skip_padding);

// What the layers may attend to of a whole batch, which the packed rows are the counting ones of: a mask (B, L) then.
nn::MaskSpec mask_spec_of(const BertRows& rows);

}  // namespace qkv::models
