// Which rows of a padded batch a model computes, and which keys they see.
#pragma once

#include "nn/ragged_rows.h"

namespace qkv::models {

constexpr ops::MaskNames kPaddingNames{"valid_lens", "attention_mask"};

// Without packing every layer sees (B, L, M) and a restriction on keys. Packed, the rows of padding are left out.
struct PaddedRows : nn::RaggedRows {
  nn::MaskSpec mask_spec;  // not packed
  bool packed() const { return kept.defined(); }
  // The numbers of the rows that are computed, of (B, L), or (L,) that repeats with each item: those, or (R,) if
  // packed.
  Array picked(const Array& numbers) const;
};

// valid_lens int64 (B,) or (B, L); mask boolean or of the integers 0 and 1, (B, Lk), (B, L, Lk) or with 4 axes, where
// Lk counts `before` keys of a cache, too. Both may be undefined, and both must allow a key.
PaddedRows padded_rows(const char* model, Index batch, Index length, const Array& valid_lens, const Array& mask,
                       bool skip_padding, Index before = 0, ops::MaskNames names = kPaddingNames);

// What the layers may attend to of a whole batch: a mask (B, L) of the kept rows if rows are left out.
nn::MaskSpec mask_spec_of(const nn::RaggedRows& rows);
inline nn::MaskSpec mask_spec_of(const PaddedRows& rows) {
  return rows.packed() ? mask_spec_of(static_cast<const nn::RaggedRows&>(rows)) : rows.mask_spec;
}

}  // namespace qkv::models
