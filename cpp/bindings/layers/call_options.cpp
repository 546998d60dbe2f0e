#include "bindings/layers/call_options.h"

#include <algorithm>

#include "bindings/operations/formula_source.h"
#include "bindings/values/options.h"
#include "core/error.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

constexpr std::string_view kMemory = "memory_";
constexpr const char* kNames[] = {"valid_lens", "attn_mask", "dropout_keep", "score_mod",
                                  "mask_mod",   "is_causal", "cache",        "return_weights"};

void settle(const char* operation, ops::MaskSpec& mask_spec, Index keys) {
  warn_of_swapped(operation, mask_spec, keys);
  if (Tensor& mask = mask_spec.attn_mask; mask.defined()) {  // one copy for the records of all layers
    if (!mask.requires_grad()) mask = Tensor(nn::snapshot(mask.data()));
    else if (mask.is_leaf() && !nn::NoAttentionRecord::active()) mask = ops::copy(mask);
  }
}

nn::KVCache* settled(const Call& call, ops::MaskSpec& mask_spec, py::handle cache, Index keys) {
  nn::KVCache* own = cache_from(cache, call.operation(), "cache must be a KVCache");
  settle(call.operation(), mask_spec, keys + (own == nullptr ? 0 : own->length()));
  return own;
}

}  // namespace

void CallOptions::describe(Parameter& p, std::string_view name) {
  if (name.starts_with(kMemory)) name.remove_prefix(kMemory.size());
  if (std::ranges::find(kNames, name) == std::end(kNames)) throw std::logic_error(text("no option ", name));
  p.kind = name == "return_weights" ? kind_of<bool> : Argument<Floating>::kind;
}

std::size_t CallOptions::take(Call& call, PyObject* const* values, std::span<const Parameter> parameters) {
  struct Functions {
    py::handle score = Py_None, mask = Py_None;
  } own_functions, memory_functions;
  memory.names = kMemoryNames;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const py::handle value = values[i];
    if (value.is(parameters[i].fallback)) continue;
    const char* name = PyUnicode_AsUTF8(parameters[i].name.ptr());
    std::string_view option = name;
    const bool of_memory = option.starts_with(kMemory);
    if (of_memory) option.remove_prefix(kMemory.size());
    ops::MaskSpec& mask_spec = of_memory ? memory : self;
    Functions& functions = of_memory ? memory_functions : own_functions;
    if (option == "valid_lens") mask_spec.valid_lens = nn::snapshot(call.integers_or_none(value, name));
    else if (option == "attn_mask") mask_spec.attn_mask = call.mask(value, name);
    else if (option == "dropout_keep") mask_spec.dropout_keep = call.booleans_or_none(value, name);
    else if (option == "score_mod") functions.score = value;
    else if (option == "mask_mod") functions.mask = value;
    else if (option == "is_causal") causal = causal_from(value, call.operation());
    else if (option == "cache") cache = value;
    else if (const auto flag = flag_or_none(value)) return_weights = *flag;
    else return i;
  }
  self.formula_source = formula_source_from(call.operation(), own_functions.score, own_functions.mask);
  memory.formula_source =
      formula_source_from(call.operation(), memory_functions.score, memory_functions.mask, kMemoryFormulas);
  return parameters.size();
}

nn::AttentionCall CallOptions::of_attention(const Call& call, Index keys) {
  nn::KVCache* own = settled(call, self, cache, keys);
  return {.mask_spec = std::move(self), .causal = causal, .cache = own};
}

nn::BlockCall CallOptions::of_block(const Call& call, Index keys, Index memory_keys) {
  nn::KVCache* own = settled(call, self, cache, keys);
  settle(call.operation(), memory, memory_keys);
  return {.self = std::move(self), .memory = std::move(memory), .causal = causal, .cache = own};
}

nn::KVCache* cache_from(py::handle cache, const char* layer, const char* wanted) {
  if (cache.is_none()) return nullptr;
  if (!py::isinstance<nn::KVCache>(cache)) fail_type(layer, ": ", wanted, "; got ", described(cache));
  return cache.cast<nn::KVCache*>();
}

}  // namespace qkv::bindings
