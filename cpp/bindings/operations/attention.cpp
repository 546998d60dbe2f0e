// scaled_dot_product_attention, whose options are those of a table, and additive attention.
#include <algorithm>

#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/operations/attention_options.h"
#include "bindings/operations/formula_source.h"
#include "bindings/values/operation.h"
#include "core/error.h"
#include "ops/attention/additive.h"
#include "ops/attention/ragged.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// Pieces one after the other.
py::object ragged(Call& call, const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionOptions& o,
                  const Array& query_begins, const Array& key_begins, py::handle score_mod, py::handle mask_mod) {
  if (o.dropout_key) fail_value(o.operation, ": dropout_key must be None beside cu_seqlens_q; got one");
  ops::FormulaFrom formula;
  if (o.formula_source)
    formula = [&](Index piece) {
      const InPython python;
      const py::object shifted = callback("of_piece");
      return formula_source_from(o.operation, shifted(score_mod, piece), shifted(mask_mod, piece));
    };
  const ops::RaggedOutputs y =
      without_gil([&] { return ops::ragged_attention(q, k, v, query_begins, key_begins, o, formula); });
  if (y.output.requires_grad()) call.force_tensor();  // of Tensors that a formula captures
  py::list results;
  results.append(call.result(y.output));
  if (o.return_weights) {
    py::list weights;
    for (const Tensor& w : y.weights) weights.append(call.result(w));
    results.append(weights);
  }
  if (o.return_lse) results.append(call.any_tensor() ? py::cast(y.lse) : py::object(to_numpy(y.lse.data(), true)));
  return results.size() == 1 ? py::object(results[0]) : py::object(py::tuple(results));
}

// The options of the table, then cu_seqlens_q and cu_seqlens_k.
struct GivenOptions {
  ops::AttentionOptions options = {};
  PyObject* const* values = nullptr;
  static void describe(Parameter& p, std::string_view name) {
    p.kind = Argument<Floating>::kind;
    for (const AttentionOption& option : attention_options())
      if (name == option.name) p.kind = option.kind;
  }
  std::size_t take(Call& call, PyObject* const* given, std::span<const Parameter> parameters) {
    set_attention_options(options, call, values = given);
    return parameters.size();
  }
  PyObject* operator[](std::string_view name) const {
    return values[std::ranges::find(attention_options(), name, &AttentionOption::name) - attention_options().begin()];
  }
};

}  // namespace

void bind_attention(Functions& m) {
  op(m, "warn_of_mask_as_lengths(operation, name, lengths, keys)",
     [](const std::string& operation, const std::string& name, const Array& lengths, Index keys, Call&) {
       warn_of_mask_as_lengths(operation.c_str(), name.c_str(), lengths, keys);
     });
  std::string head = "scaled_dot_product_attention(query, key, value";
  for (const AttentionOption& option : attention_options())
    head += text(", ", option.name, option.standard == AttentionOption::Standard::left_out ? "=None" : "");
  op(m, head + ", cu_seqlens_q=None, cu_seqlens_k=None)",
     [](const Tensor& q, const Tensor& k, const Tensor& v, const GivenOptions& given, Call& call) {
       const ops::AttentionOptions& o = given.options;
       warn_of_swapped(call.operation(), o, count_of(k));
       PyObject* const* begins = given.values + attention_options().size();
       if (begins[0] != Py_None || begins[1] != Py_None)
         return ragged(call, q, k, v, o, call.integers_or_none(begins[0], "cu_seqlens_q"),
                       call.integers_or_none(begins[1], "cu_seqlens_k"), given["score_mod"], given["mask_mod"]);
       const ops::AttentionOutputs y = without_gil(q.numel() * count_of(k), [&] { return ops::attention(q, k, v, o); });
       if (y.output.requires_grad()) call.force_tensor();  // of Tensors that a formula captures
       return shown_result(call, y);
     });
  op(m, "attention_image(query, key, options, image)",
     [](const Tensor& query, const Tensor& key, const py::dict& options, As<image_from> image, Call& call) {
       const ops::AttentionOptions o = attention_options_from(call, options);
       warn_of_swapped(call.operation(), o, count_of(key));
       return without_gil([&] { return ops::attention_image(query.data(), key.data(), o, image); });
     });
  op(m,
     "additive_attention(queries, keys, values, score_weight, valid_lens, attn_mask, dropout_p, dropout_keep, "
     "masked_value, return_weights, dropout_key=None)",
     [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w, IntegersOrNone valid_lens, Mask attn_mask,
        double dropout, BooleansOrNone keep, std::optional<double> masked_value, bool return_weights,
        As<dropout_key_from> dropout_key, Call& call) {
       ops::AttentionOptions o;
       o.operation = call.operation();
       o.valid_lens = valid_lens;
       o.attn_mask = attn_mask;
       o.dropout = dropout;
       o.dropout_keep = keep;
       o.dropout_key = dropout_key;
       o.masked_value = masked_value;
       warn_of_swapped(o.operation, o, count_of(k));
       ops::AttentionOutputs y = without_gil([&] { return ops::additive_attention(q, k, w, v, o); });
       if (!return_weights) y.weights = {};
       return y;
     });
}

}  // namespace qkv::bindings
