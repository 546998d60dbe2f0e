#include "models/padded_rows.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "ops/lengths.h"

namespace qkv::models {
namespace {

// Zeros and ones of any dtype as booleans.
Array boolean(const char* model, const char* name, const Array& mask) {
  if (mask.dtype() == DType::boolean) return mask;
  Array result(mask.shape(), DType::boolean);
  visit_any(mask.dtype(), [&]<class T>(T) {
    const T* in = mask.data<T>();
    for (Index i = 0; i < mask.numel(); ++i) {
      if (in[i] != T(0) && in[i] != T(1))
        fail_value(model, ": ", name, " must hold 1 for keys that count and 0 for the others; got ", in[i]);
      result.data<bool>()[i] = in[i] != T(0);
    }
  });
  return result;
}

void check_mask(const char* model, const char* name, const Array& mask, Index batch, Index length, Index keys) {
  const Shape& s = mask.shape();
  const auto fits = [](Index size, Index wanted) { return size == wanted || size == 1; };
  bool fit =
      s.rank() >= 2 && s.rank() <= 4 && (s.dim(0) == batch || (s.rank() > 2 && s.dim(0) == 1)) && s.dim(-1) == keys;
  if (fit && s.rank() > 2) fit = fits(s.dim(-2), length);
  if (!fit)
    fail_value(model, ": ", name, " must be (B, L) = (", batch, ", ", keys,
               ") to match input_ids, or (B, L, L) for each query, or (B, H, L, L); got ", name, " ", s);
}

// The lengths that say the same as a mask (B, L), if there are any: ones, then zeros.
Array lengths_of(const Array& mask) {
  const Index batch = mask.dim(0), length = mask.dim(1);
  Array lens(Shape{batch}, DType::int64);
  for (Index b = 0; b < batch; ++b) {
    const bool* row = mask.data<bool>() + b * length;
    const Index count = std::find(row, row + length, false) - row;
    if (std::find(row + count, row + length, true) != row + length) return {};
    lens.data<std::int64_t>()[b] = count;
  }
  return lens;
}

void pack(const char* model, PaddedRows& rows, const Array& lens, const Array& mask) {
  if ((lens.defined() && lens.rank() != 1) || (mask.defined() && mask.rank() != 2))
    fail_value(model, ": skip_padding needs valid_lens (B,) or attention_mask (B, L), which say what is padding; got ",
               lens.defined() && lens.rank() != 1 ? "valid_lens " : "attention_mask ",
               lens.defined() && lens.rank() != 1 ? lens.shape() : mask.shape());
  std::vector<std::int64_t> places;
  for (Index b = 0; b < rows.batch; ++b) {
    const Index end = lens.defined() ? lens.data<std::int64_t>()[b] : rows.length;
    const std::size_t before = places.size();
    for (Index i = b * rows.length; i < b * rows.length + end; ++i)
      if (!mask.defined() || mask.data<bool>()[i]) places.push_back(i);
    rows.counts.push_back(static_cast<Index>(places.size() - before));
  }
  rows.kept = Array(Shape{static_cast<Index>(places.size())}, DType::int64);
  std::copy(places.begin(), places.end(), rows.kept.data<std::int64_t>());
}

}  // namespace

PaddedRows padded_rows(const char* model, Index batch, Index length, const Array& given_lens, const Array& mask,
                       bool skip_padding, Index before, ops::MaskNames names) {
  PaddedRows rows;
  rows.batch = batch;
  rows.length = length;
  const Index keys = before + length;
  Array valid_lens;
  if (given_lens.defined())
    valid_lens = ops::checked_lengths(model, given_lens, {batch}, {batch, length}, keys,
                                      {.lengths = names.valid_lens, .queries = "L", .keys = "L"});
  Array allowed;
  if (mask.defined()) {
    check_mask(model, names.attn_mask, mask, batch, length, keys);
    allowed = boolean(model, names.attn_mask, mask);
  }
  if (skip_padding && before == 0) {
    pack(model, rows, valid_lens, allowed);
    if (rows.kept.numel() == batch * length) rows.kept = {};  // nothing to leave out
    return rows;
  }
  rows.mask_spec.names = names;
  rows.mask_spec.valid_lens = valid_lens;
  if (!allowed.defined()) return rows;
  if (allowed.rank() == 2) {
    const Array lens = valid_lens.defined() ? Array() : lengths_of(allowed);
    if (lens.defined()) rows.mask_spec.valid_lens = lens;
    else rows.mask_spec.attn_mask = Tensor(allowed.reshaped({batch, 1, 1, keys}));
  } else {
    rows.mask_spec.attn_mask = Tensor(allowed);
  }
  return rows;
}

Array PaddedRows::picked(const Array& numbers) const {
  if (!packed()) return numbers;
  Array result(kept.shape(), DType::int64);
  const std::int64_t *from = numbers.data<std::int64_t>(), *place = kept.data<std::int64_t>();
  for (Index r = 0; r < kept.numel(); ++r)
    result.data<std::int64_t>()[r] = from[numbers.rank() == 1 ? place[r] % length : place[r]];
  return result;
}

nn::MaskSpec mask_spec_of(const nn::RaggedRows& rows) {
  Array mask = Array::zeros({rows.batch, rows.length}, DType::boolean);
  for (Index r = 0; r < rows.kept.numel(); ++r) mask.data<bool>()[rows.kept.data<std::int64_t>()[r]] = true;
  nn::MaskSpec mask_spec;
  mask_spec.attn_mask = Tensor(mask);
  return mask_spec;
}

}  // namespace qkv::models
