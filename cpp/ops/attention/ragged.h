// Attention of sequences of different lengths that are one after the other, without padding.
#pragma once

#include <functional>
#include <vector>

#include "ops/attention/attention.h"

namespace qkv::ops {

struct RaggedOutputs {
  Tensor output, lse = {};  // (R, H * Dv) or (R, H, Dv), and (H, R) if asked for
  Tensors weights = {};     // (H, Lq_i, Lk_i) of each piece if asked for
};

// Formulas of a batch whose first entry is this piece.
using FormulaFrom = std::function<std::shared_ptr<const FormulaSource>(Index piece)>;

// query (R, H * D), key (S, Hkv * D), value (S, Hkv * Dv), heads side by side, of which piece i has queries[i] and
// keys[i] rows. Masks, lengths and offsets are not for this; the distances of a bias are those of the longest piece or
// of longer ones.
RaggedOutputs ragged_attention(const Tensor& query, const Tensor& key, const Tensor& value, Heads heads,
                               const std::vector<Index>& queries, const std::vector<Index>& keys,
                               const AttentionOptions& options, const FormulaFrom& formula = nullptr);
// The same of query (R, H, D), key (S, Hkv, D), value (S, Hkv, Dv), whose pieces begin at these rows, the last of which
// is the end: (B + 1,) each. Checked as what a function's arguments cu_seqlens_q and cu_seqlens_k are.
RaggedOutputs ragged_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Array& query_begins,
                               const Array& key_begins, const AttentionOptions& options, const FormulaFrom& formula);

// The first so many rows of x (R, M), the next ones and so on, which share its memory. The gradient is made once, not
// added up of as many arrays of its size.
Tensors rows_apart(const Tensor& x, const std::vector<Index>& counts);

}  // namespace qkv::ops
