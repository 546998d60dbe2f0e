#include "models/encoder_decoder.h"

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::models {

void check_ids(const char* operation, const char* name, const Array& ids) {
  if (ids.rank() != 2) fail_value(operation, ": ", name, " must be (B, T); got ", name, " ", ids.shape());
}

DecoderState DecoderState::reordered(const Array& indices) const {
  if (indices.rank() != 1) fail_value("reorder_state: indices must be (B,); got indices ", indices.shape());
  const auto of = [&](const Tensor& x, Index axis) {
    return x.defined() ? Tensor(ops::entries(x.data(), axis, indices)) : x;
  };
  return {of(outputs, 0), of(hidden, 1), valid_lens.defined() ? ops::entries(valid_lens, 0, indices) : valid_lens,
          of(keys, 0)};
}

}  // namespace qkv::models
