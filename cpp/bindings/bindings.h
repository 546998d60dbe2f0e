// One function per family of the interface.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/instances.h"

namespace qkv::bindings {

void bind_config(pybind11::module_& m);
void bind_callbacks(pybind11::module_& m);
void bind_tensor(pybind11::module_& m);
void bind_subclass(pybind11::module_& m);
void bind_direct_calls(pybind11::module_& m);
void bind_functions(pybind11::module_& m);
void bind_arrays(pybind11::module_& m);
void bind_indices(pybind11::module_& m);
void bind_random(pybind11::module_& m);
void bind_additive(pybind11::module_& m);
void bind_kernel_pooling(pybind11::module_& m);
void bind_positions(pybind11::module_& m);
void bind_attention(pybind11::module_& m);
void bind_module(pybind11::module_& m);
void bind_init(pybind11::module_& m);
void bind_layers(pybind11::module_& m);
void bind_positional_encoding(pybind11::module_& m);
void bind_attention_layers(pybind11::module_& m);
void bind_multi_head_attention(pybind11::module_& m);
void bind_gru(pybind11::module_& m);
void bind_transformer(pybind11::module_& m);
void bind_bert_parts(pybind11::module_& m);
void bind_bert(pybind11::module_& m);
void bind_bert_heads(pybind11::module_& m);
void bind_decoding(pybind11::module_& m);
void bind_transformer_model(pybind11::module_& m);
void bind_causal_lm(pybind11::module_& m);
void bind_seq2seq(pybind11::module_& m);
void bind_softmax(pybind11::module_& m);
void bind_activation(pybind11::module_& m);
void bind_norm(pybind11::module_& m);
void bind_embedding(pybind11::module_& m);
void bind_loss(pybind11::module_& m);
void bind_optim(pybind11::module_& m);
void bind_processes(pybind11::module_& m);
void bind_rules(pybind11::module_& m);
void bind_explained(pybind11::module_& m);

// When everything is bound: docstrings begin with signatures that Python reads.
void show_signatures(pybind11::module_& m);
// When everything is bound: arguments that fit no signature are answered in our words.
void reword_rejections(const pybind11::module_& m);

}  // namespace qkv::bindings
