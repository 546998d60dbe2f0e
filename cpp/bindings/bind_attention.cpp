// scaled_dot_product_attention.
#include <cmath>

#include "bindings/bindings.h"
#include "bindings/formula.h"
#include "bindings/options.h"

namespace qkv::bindings {

void bind_attention(Functions& m) {
  m.def(
      "scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, "
      "enable_gqa, valid_lens, window, softcap, alibi_slopes, q_offset, sinks, masked_value, "
      "dropout_keep, return_weights, return_lse, score_mod=None, mask_mod=None, image=None)",
      [](py::handle query, py::handle key, py::handle value, py::handle attn_mask, py::handle dropout_p,
         py::handle is_causal, py::handle scale, bool enable_gqa, py::handle valid_lens, py::handle window,
         py::handle softcap, py::handle alibi_slopes, py::handle q_offset, py::handle sinks, py::handle masked_value,
         py::handle dropout_keep, bool return_weights, bool return_lse, py::handle score_mod, py::handle mask_mod,
         py::handle image) -> py::object {
        const char* name = "scaled_dot_product_attention";
        Call call(name);
        const Tensor q = call.floating(query, "query"), k = call.floating(key, "key"),
                     v = call.floating(value, "value");
        ops::AttentionOptions o;
        if (!attn_mask.is_none()) o.attn_mask = call.any(attn_mask, "attn_mask", false);
        o.valid_lens = call.integers(valid_lens, "valid_lens");
        o.causal = causal_from(is_causal, name);
        o.scale = number_from(scale, name, "scale");
        o.enable_gqa = enable_gqa;
        o.window = window_from(window, name);
        o.softcap = required_number_from(softcap, name, "softcap");
        if (!alibi_slopes.is_none()) o.alibi_slopes = packed(call.floating(alibi_slopes, "alibi_slopes", false).data());
        o.q_offset = call.integers(q_offset, "q_offset");
        o.sinks = call.optional(sinks, "sinks", false);
        o.masked_value = number_from(masked_value, name, "masked_value");
        o.dropout = required_number_from(dropout_p, name, "dropout_p");
        o.dropout_keep = call.booleans(dropout_keep, "dropout_keep");
        o.formula_source = formula_from(name, score_mod, mask_mod);
        warn_of_swapped(name, o, count_of(k));
        o.return_weights = return_weights;
        o.return_lse = return_lse;
        if (!image.is_none()) {
          o.operation = "attention_image";
          const ops::ImageOptions options = image_from(image);
          return call.result(without_gil([&] { return ops::attention_image(q.data(), k.data(), o, options); }));
        }
        const ops::AttentionOutputs outputs =
            without_gil(q.numel() * count_of(k), [&] { return ops::attention(q, k, v, o); });
        if (outputs.output.requires_grad()) call.force_tensor();  // of Tensors that a formula captures
        if (!return_weights && !return_lse) return call.result(outputs.output);
        py::list results;
        results.append(call.result(outputs.output));
        if (return_weights) results.append(call.result(outputs.weights));
        if (return_lse) {  // stays float32 where the others are of half width
          results.append(call.any_tensor() ? py::cast(outputs.lse) : py::object(to_numpy(outputs.lse.data(), true)));
        }
        return py::tuple(results);
      });
}

}  // namespace qkv::bindings
