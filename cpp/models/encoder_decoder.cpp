#include "models/encoder_decoder.h"

#include "core/error.h"
#include "ops/ops.h"

namespace qkv::models {

void check_ids(const char* operation, const char* name, const Array& ids) {
  if (ids.rank() != 2) fail_value(operation, ": ", name, " must be (B, T); got ", name, " ", ids.shape());
}

DecoderState DecoderState::reordered(const Array& indices) const {
  const Index batch = hidden.dim(1);
  if (indices.rank() != 1) fail_value("reorder_state: indices must be (B,); got indices ", indices.shape());
  for (Index i = 0; i < indices.numel(); ++i)
    if (const std::int64_t index = indices.data<std::int64_t>()[i]; index < 0 || index >= batch)
      fail_value("reorder_state: indices must be in 0..", batch - 1, " because the state has ", batch,
                 " batch entries; got ", index);
  const auto of = [&](const Tensor& x, Index axis) {
    return x.defined() ? Tensor(ops::entries(x.data(), axis, indices)) : x;
  };
  return {of(outputs, 0), of(hidden, 1), valid_lens.defined() ? ops::entries(valid_lens, 0, indices) : valid_lens,
          of(keys, 0)};
}

}  // namespace qkv::models
