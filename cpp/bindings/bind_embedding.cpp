// Embeddings, rotary positions and dropout: what stands around the attention of a model.
#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "core/random.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_embedding(Functions& m) {
  op(m, "embedding(weight, ids, padding_idx)", ops::embedding);
  op<Floating, Aside, Aside, bool>(m, "apply_rotary(x, cos, sin, interleaved)",
                                   [](const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
                                     return ops::apply_rotary(x, packed(cos.data()), packed(sin.data()), interleaved);
                                   });
  op(m, "dropout(x, p, rng)", [](const Tensor& x, double p, Generator* rng) {
    return ops::dropout(x, p, rng == nullptr ? default_generator() : *rng);
  });
  op<Floating, BooleansOrNone, double>(m, "dropout: dropout_with_mask(x, keep, p)", ops::dropout_with_mask);
}

}  // namespace qkv::bindings
