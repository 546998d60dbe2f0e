// A padded batch of which the rows of padding are left out: the others of all items are one after the other.
#pragma once

#include <vector>

#include "nn/attention.h"

namespace qkv::nn {

struct RaggedRows {
  Index batch = 0, length = 0;
  Array kept;                 // int64 (R,), the places b * length + i of the kept rows
  std::vector<Index> counts;  // how many rows each item keeps
};

// The rows (R, M) that are kept of a whole batch (B, L, M).
Tensor kept_rows(const Tensor& x, const RaggedRows& rows);
// (R, M) to (B, L, M) with zeros in the rows that were left out.
Tensor unpacked(const Tensor& x, const RaggedRows& rows);

// Attention of each item's rows to each other, of (1, R, H * D).
Tensor ragged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RaggedRows& rows, ops::Heads heads,
                        const ops::AttentionOptions& options);
// Which pairs of places (B, L, L) are both kept.
Array kept_pairs(const RaggedRows& rows);
// What remains of such a call: its weights are shown with zeros in the rows and columns of padding.
std::shared_ptr<const AttentionRecord::Kept> ragged_record(const Array& q, const Array& k, const RaggedRows& rows,
                                                           ops::Heads heads, const ops::AttentionOptions& options);

}  // namespace qkv::nn
