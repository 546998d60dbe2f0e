// One function per family of the interface.
#pragma once

#include "bindings/function.h"

namespace qkv::bindings {

void bind_config(Functions& m);
void bind_callbacks(Functions& m);
void bind_tensor(Functions& m);
void bind_subclass(Functions& m);
void bind_direct_calls(Functions& m);
void bind_functions(Functions& m);
void bind_arrays(Functions& m);
void bind_indices(Functions& m);
void bind_random(Functions& m);
void bind_additive(Functions& m);
void bind_kernel_pooling(Functions& m);
void bind_positions(Functions& m);
void bind_attention(Functions& m);
void bind_formula(Functions& m);
void bind_module(Functions& m);
void bind_init(Functions& m);
void bind_layers(Functions& m);
void bind_positional_encoding(Functions& m);
void bind_attention_layers(Functions& m);
void bind_multi_head_attention(Functions& m);
void bind_gru(Functions& m);
void bind_transformer(Functions& m);
void bind_bert_parts(Functions& m);
void bind_bert(Functions& m);
void bind_bert_heads(Functions& m);
void bind_decoding(Functions& m);
void bind_transformer_model(Functions& m);
void bind_causal_lm(Functions& m);
void bind_body(Functions& m);
void bind_seq2seq(Functions& m);
void bind_linear_attention(Functions& m);
void bind_observer(Functions& m);
void bind_softmax(Functions& m);
void bind_activation(Functions& m);
void bind_norm(Functions& m);
void bind_embedding(Functions& m);
void bind_loss(Functions& m);
void bind_optim(Functions& m);
void bind_processes(Functions& m);
void bind_rules(Functions& m);
void bind_explained(Functions& m);

}  // namespace qkv::bindings
