#include "bindings/modules/call_attention.h"

#include <limits>

#include "bindings/operations/formula_source.h"
#include "models/padded_rows.h"

namespace qkv::bindings {
namespace {

// What a mask, which may be undefined, and causal order leave; the first query is at `offset`.
Tensor causal_mask(const Tensor& mask, Index queries, Index keys, Index offset) {
  const Tensor open = ops::lower_triangle(Tensor(Array::full({queries, keys}, DType::boolean, true)), offset);
  if (!mask.defined()) return open;
  if (mask.dtype() == DType::boolean) return ops::bitwise(ops::Bitwise::bit_and, open, mask);
  return ops::where(open, mask, ops::scalar_like(mask, -std::numeric_limits<double>::infinity()));
}

}  // namespace

WholeBatch::WholeBatch(const nn::RaggedRows& rows, const nn::SharedPositions* given)
    : mask_spec(models::mask_spec_of(rows)) {
  mask_spec.attn_mask = ops::reshape(mask_spec.attn_mask, {rows.batch, 1, 1, rows.length});
  if (given != nullptr) shared.distance_bias = given->distance_bias;
}

Tensor call_attention(const DefinedCall& forward, const nn::AttentionRecord* record, ops::Causal standard,
                      bool keys_given, const Tensor& queries, const Tensor& keys, const Tensor& values,
                      const nn::AttentionCall& call) {
  if (call.cache != nullptr && !forward.takes("cache", keys_given)) {
    nn::AttentionCall whole = call;
    whole.cache = nullptr;
    return nn::behind_inputs(type_name(forward.self), *call.cache, queries, [&](const Tensor& all) {
      return call_attention(forward, record, standard, keys_given, all, Tensor(), Tensor(), whole);
    });
  }
  const Index before = call.cache == nullptr ? 0 : call.cache->length();
  ops::MaskSpec mask_spec = call.mask_spec;
  Keywords keywords;
  if (const ops::Causal causal = call.causal.value_or(standard);
      causal != standard && causal != ops::Causal::none && !forward.takes("is_causal")) {
    const Index rows = queries.dim(-2), all = before + (keys.defined() ? keys : queries).dim(-2);
    mask_spec.attn_mask =
        causal_mask(mask_spec.attn_mask, rows, all, causal == ops::Causal::lower_right ? all - rows : before);
  } else {
    keywords.add("is_causal", causal, standard);
  }
  keywords.add(mask_spec);
  add_formula(keywords, mask_spec.formula_source);
  keywords.add("dropout_keep", mask_spec.dropout_keep);
  if (call.cache != nullptr) keywords.add("cache", py::cast(call.cache));
  const Tensor& k = keys.defined() || !keys_given ? keys : queries;
  const Tensor& v = values.defined() || !keys_given ? values : k;
  py::list arguments;
  arguments.append(queries);
  if (k.defined()) arguments.append(k);
  if (v.defined() && k.defined()) arguments.append(v);
  else keywords.add("values", v);
  const nn::AttentionRecord::Capture own(record);  // if the forward calls the one that it inherits
  const Tensor y = call_for_output(forward, py::tuple(arguments), keywords, call.weights);
  if (call.record != nullptr) call.record->keep(nn::AttentionRecord::of(own.weights(), {}));
  if (call.cache != nullptr) check_appended(forward, *call.cache, before, queries.dim(-2));
  return y;
}

}  // namespace qkv::bindings
