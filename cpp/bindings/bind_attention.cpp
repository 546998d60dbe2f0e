// scaled_dot_product_attention.
#include <cmath>

#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/formula_source.h"
#include "bindings/formula_value.h"
#include "bindings/options.h"
#include "core/error.h"
#include "ops/attention/ragged.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// The lengths of pieces that begin at these rows, of so many in all.
std::vector<Index> lengths_between(const char* name, const char* axis, const Array& begins, const Tensor& x) {
  if (!begins.defined())
    fail_value("scaled_dot_product_attention: ", name, " must be given because the other is; got None");
  std::vector<Index> lengths;
  const std::int64_t* at = begins.data<std::int64_t>();
  bool fits = begins.rank() == 1 && begins.numel() > 0 && at[0] == 0 && at[begins.numel() - 1] == x.dim(0);
  for (Index i = 0; fits && i + 1 < begins.numel(); ++i) {
    lengths.push_back(at[i + 1] - at[i]);
    fits = lengths.back() >= 0;
  }
  if (!fits)
    fail_value("scaled_dot_product_attention: ", name, " must be (B + 1,) numbers that rise from 0 to ", axis, " = ",
               x.dim(0), "; got ", name, " ", begins.shape(),
               begins.numel() > 0 ? text(" from ", at[0], " to ", at[begins.numel() - 1]) : "");
  return lengths;
}

// query (R, H, D), key (S, Hkv, D), value (S, Hkv, Dv): pieces one after the other.
py::object ragged(Call& call, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionOptions& o,
                  const Array& query_begins, const Array& key_begins, py::handle score_mod, py::handle mask_mod) {
  const char* name = "scaled_dot_product_attention";
  const char* excluded = o.attn_mask.defined()      ? "attn_mask"
                         : o.valid_lens.defined()   ? "valid_lens"
                         : o.q_offset.defined()     ? "q_offset"
                         : o.dropout_keep.defined() ? "dropout_keep"
                                                    : nullptr;
  if (excluded != nullptr)
    fail_value(name, ": ", excluded, " must be None because cu_seqlens_q and cu_seqlens_k cut the rows; got both");
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3 || k.dim(2) != q.dim(2) || v.dim(0) != k.dim(0) ||
      v.dim(1) != k.dim(1))
    fail_value(name, ": query, key and value must be (R, H, D), (S, Hkv, D) and (S, Hkv, Dv) beside cu_seqlens_q; got ",
               q.shape(), ", ", k.shape(), " and ", v.shape());
  const ops::Heads heads{q.dim(1), k.dim(1), -1};
  if (heads.kv_heads < 1 || heads.query_heads % heads.kv_heads != 0 ||
      (heads.kv_heads != heads.query_heads && !o.enable_gqa))
    fail_value(name, ": key must have the H = ", heads.query_heads,
               " heads of query, or with enable_gqa a divisor of it; got ", heads.kv_heads);
  const auto queries = lengths_between("cu_seqlens_q", "R", query_begins, q),
             keys = lengths_between("cu_seqlens_k", "S", key_begins, k);
  if (queries.size() != keys.size())
    fail_value(name, ": cu_seqlens_k must be (B + 1,) = (", queries.size() + 1, ",) to match cu_seqlens_q; got ",
               "cu_seqlens_k ", key_begins.shape());
  const auto flat = [](const Tensor& x, DType dtype) {
    return ops::reshape(ops::cast(x, dtype), {x.dim(0), x.dim(1) * x.dim(2)});
  };
  const DType dtype = ops::promoted({q, k, v});
  ops::FormulaFrom formula;
  if (o.formula_source)
    formula = [&](Index piece) {
      const InPython python;
      const py::object shifted = callback("of_piece");
      return formula_source_from(name, shifted(score_mod, piece), shifted(mask_mod, piece));
    };
  const ops::RaggedOutputs y = without_gil([&] {
    return ops::ragged_attention(flat(q, dtype), flat(k, dtype), flat(v, dtype), heads, queries, keys, o, formula);
  });
  if (y.output.requires_grad()) call.force_tensor();  // of Tensors that a formula captures
  py::list results;
  results.append(call.result(ops::reshape(y.output, {q.dim(0), q.dim(1), v.dim(2)})));
  if (o.return_weights) {
    py::list weights;
    for (const Tensor& w : y.weights) weights.append(call.result(w));
    results.append(weights);
  }
  if (o.return_lse) results.append(call.any_tensor() ? py::cast(y.lse) : py::object(to_numpy(y.lse.data(), true)));
  return results.size() == 1 ? py::object(results[0]) : py::object(py::tuple(results));
}

}  // namespace

void bind_attention(Functions& m) {
  m.def(
      "scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, "
      "enable_gqa, valid_lens, window, softcap, alibi_slopes, q_offset, sinks, masked_value, "
      "dropout_keep, return_weights, return_lse, score_mod=None, mask_mod=None, image=None, cu_seqlens_q=None, "
      "cu_seqlens_k=None, formula=None)",
      [](py::handle query, py::handle key, py::handle value, py::handle attn_mask, py::handle dropout_p,
         py::handle is_causal, py::handle scale, bool enable_gqa, py::handle valid_lens, py::handle window,
         py::handle softcap, py::handle alibi_slopes, py::handle q_offset, py::handle sinks, py::handle masked_value,
         py::handle dropout_keep, bool return_weights, bool return_lse, py::handle score_mod, py::handle mask_mod,
         py::handle image, py::handle cu_seqlens_q, py::handle cu_seqlens_k, py::handle formula) -> py::object {
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
        o.formula_source = formula_source_from(name, score_mod, mask_mod);
        warn_of_swapped(name, o, count_of(k));
        o.return_weights = return_weights;
        o.return_lse = return_lse;
        o.formula = formula_value_from(formula);
        if (!image.is_none()) {
          o.operation = "attention_image";
          const ops::ImageOptions options = image_from(image);
          return call.result(without_gil([&] { return ops::attention_image(q.data(), k.data(), o, options); }));
        }
        if (!cu_seqlens_q.is_none() || !cu_seqlens_k.is_none())
          return ragged(call, q, k, v, o, call.integers(cu_seqlens_q, "cu_seqlens_q"),
                        call.integers(cu_seqlens_k, "cu_seqlens_k"), score_mod, mask_mod);
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
