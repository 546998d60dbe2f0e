// Which rows of a padded batch BERT computes, and which keys they see.
#pragma once

#include <vector>

#include "autograd/tensor.h"
#include "nn/attention.h"

namespace qkv::models {

// Without packing every layer sees (B, L, M) and a restriction on keys. Packed, the rows of padding are left out:
// layers see (R, M), the kept rows of all items one after the other, and an item's rows are its keys.
struct BertRows {
  Index batch = 0, length = 0;
  nn::Restriction restriction;  // not packed
  Array kept;                   // packed: int64 (R,), the places b * length + i of the kept rows
  std::vector<Index> counts;    // packed: how many rows each item keeps

  bool packed() const { return kept.defined(); }
};

// valid_lens int64 (B,) or (B, L); mask boolean or of the integers 0 and 1, (B, L), (B, L, L) or with 4 axes. Both may
// be undefined, and both must allow a key.
BertRows bert_rows(Index batch, Index length, const Array& valid_lens, const Array& mask, bool skip_padding);

// What the layers may attend to of a whole batch, which the packed rows are the counting ones of: a mask (B, L) then.
nn::Restriction restriction_of(const BertRows& rows);
// The rows (R, M) that are kept of a whole batch (B, L, M).
Tensor kept_rows(const Tensor& x, const BertRows& rows);
// (R, M) to (B, L, M) with zeros in the rows that were left out.
Tensor unpacked(const Tensor& x, const BertRows& rows);
Array unpacked(const Array& x, const BertRows& rows);

}  // namespace qkv::models
