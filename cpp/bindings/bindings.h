// One function per family of the interface: bind_NAME in the file NAME.cpp of one of the folders.
#pragma once

// In the order in which they are bound: a class comes after those that it is derived from.
// clang-format off
#define QKV_FAMILIES(family) \
  family(config) family(tensor) family(exchange) family(subclass) family(functions) family(random) \
  family(kernel_pooling) family(attention) family(formula) family(module) family(layers) family(attention_layers) \
  family(multi_head_attention) family(gru) family(transformer) family(decoding) family(transformer_model) \
  family(causal_lm) family(body) family(seq2seq) family(linear_attention) family(observer) family(optim) \
  family(processes) family(rules)
// clang-format on

namespace qkv::bindings {

class Functions;

#define QKV_DECLARE(family) void bind_##family(Functions& m);
QKV_FAMILIES(QKV_DECLARE)
#undef QKV_DECLARE

}  // namespace qkv::bindings
