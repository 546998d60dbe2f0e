// Additive attention.
#include "ops/attention/additive.h"

#include "bindings/bindings.h"
#include "bindings/operation.h"

namespace qkv::bindings {

void bind_additive(Functions& m) {
  op<Floating, Floating, Floating, Floating, IntegersOrNone, Mask, double, BooleansOrNone, std::optional<double>, bool>(
      m,
      "additive_attention(queries, keys, values, score_weight, valid_lens, attn_mask, dropout_p, dropout_keep, "
      "masked_value, return_weights)",
      [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w, const Array& valid_lens,
         const Tensor& attn_mask, double dropout, const Array& keep, std::optional<double> masked_value,
         bool return_weights, Call& call) {
        ops::AttentionOptions o;
        o.operation = call.operation();
        o.valid_lens = valid_lens;
        o.attn_mask = attn_mask;
        o.dropout = dropout;
        o.dropout_keep = keep;
        o.masked_value = masked_value;
        warn_of_swapped(o.operation, o, count_of(k));
        ops::AttentionOutputs y = without_gil([&] { return ops::additive_attention(q, k, w, v, o); });
        if (!return_weights) y.weights = {};
        return y;
      });
}

}  // namespace qkv::bindings
