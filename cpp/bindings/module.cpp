// The list of what Python sees; each bind_* is in a file of its own name.
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/values/operation.h"

#define QKV_BIND(family) bind_##family(m);

PYBIND11_MODULE(_core_in_main, module) {
  using namespace qkv::bindings;
  Functions m(module);
  m.doc() = "The C++ core of qkv; use the package qkv.";
  m.def("register_callbacks", "Let the core call functions written in Python, by these names.", register_callbacks);
  m.def("_typed_signatures(function)", "Signatures with types, one for each overload; for tools/stubs.py.",
        typed_signatures);
  QKV_FAMILIES(QKV_BIND)
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
