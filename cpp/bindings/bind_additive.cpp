// Additive attention.
#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/attention/additive.h"

namespace qkv::bindings {

void bind_additive(Functions& m) {
  m.def(
      "additive_attention(queries, keys, values, score_weight, valid_lens, attn_mask, dropout_p, "
      "dropout_keep, masked_value, return_weights)",
      [](py::handle queries, py::handle keys, py::handle values, py::handle score_weight, py::handle valid_lens,
         py::handle attn_mask, double dropout_p, py::handle dropout_keep, std::optional<double> masked_value,
         bool return_weights) -> py::object {
        const char* name = "additive_attention";
        Call call(name);
        const Tensor q = call.floating(queries, "queries"), k = call.floating(keys, "keys");
        const Tensor v = call.floating(values, "values"), w = call.floating(score_weight, "score_weight");
        ops::AttentionOptions options;
        options.operation = name;
        options.valid_lens = call.integers(valid_lens, "valid_lens");
        options.attn_mask = call.mask(attn_mask, "attn_mask");
        options.dropout = dropout_p;
        options.dropout_keep = call.booleans(dropout_keep, "dropout_keep");
        options.masked_value = masked_value;
        warn_of_swapped(name, options, count_of(k));
        const ops::AttentionOutputs y = without_gil([&] { return ops::additive_attention(q, k, w, v, options); });
        if (!return_weights) return call.result(y.output);
        return py::make_tuple(call.result(y.output), call.result(y.weights));
      });
}

}  // namespace qkv::bindings
