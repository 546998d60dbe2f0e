#include "bindings/call_attention.h"

namespace qkv::bindings {

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
  Keywords keywords;
  keywords.add(call.restriction);
  keywords.add("dropout_keep", call.restriction.dropout_keep);
  if (call.causal) keywords.add("is_causal", *call.causal, standard);
  const Index before = call.cache == nullptr ? 0 : call.cache->length();
  if (call.cache != nullptr) keywords.add("cache", py::cast(call.cache));
  const Tensor& k = keys.defined() || !keys_given ? keys : queries;
  const Tensor& v = values.defined() || !keys_given ? values : k;
  py::list arguments;
  arguments.append(queries);
  if (k.defined()) arguments.append(k);
  if (v.defined() && k.defined()) arguments.append(v);
  else keywords.add("values", v);
  const nn::AttentionRecord::Own own(record);  // if the forward calls the one that it inherits
  const Tensor y = call_for_output(forward, py::tuple(arguments), keywords, call.weights);
  if (call.record != nullptr) call.record->keep(nn::AttentionRecord::of(own.weights(), {}));
  if (call.cache != nullptr) check_appended(forward, *call.cache, before, queries.dim(-2));
  return y;
}

}  // namespace qkv::bindings
