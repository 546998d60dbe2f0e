// The list of what Python sees; each bind_* stands in a file of its own name.
#include "bindings/bindings.h"

PYBIND11_MODULE(_core_in_main, module) {
  using namespace qkv::bindings;
  Functions m(module);
  m.doc() = "The C++ core of qkv; use the package qkv.";
  bind_config(m);
  bind_callbacks(m);
  bind_tensor(m);
  bind_subclass(m);
  bind_direct_calls(m);
  bind_functions(m);
  bind_arrays(m);
  bind_indices(m);
  bind_random(m);
  bind_additive(m);
  bind_kernel_pooling(m);
  bind_positions(m);
  bind_attention(m);
  bind_formula(m);
  bind_module(m);
  bind_init(m);
  bind_layers(m);
  bind_positional_encoding(m);
  bind_attention_layers(m);
  bind_multi_head_attention(m);
  bind_gru(m);
  bind_transformer(m);
  bind_bert_parts(m);
  bind_bert(m);
  bind_bert_heads(m);
  bind_decoding(m);
  bind_transformer_model(m);
  bind_causal_lm(m);
  bind_body(m);
  bind_seq2seq(m);
  bind_linear_attention(m);
  bind_observer(m);
  bind_softmax(m);
  bind_activation(m);
  bind_norm(m);
  bind_embedding(m);
  bind_loss(m);
  bind_optim(m);
  bind_processes(m);
  bind_rules(m);
  bind_explained(m);
}

// pybind11 takes the lock of the main interpreter; in another one it would wait for ever for it, before the module's
// code runs.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return PyInit__core_in_main();
  PyErr_SetString(PyExc_ImportError,
                  "qkv cannot be imported in a subinterpreter because its compiled core runs in the main one alone; "
                  "use another process");
  return nullptr;
}
