// What every class that Python sees has beside its methods.
#pragma once

#include <type_traits>

#include "bindings/instances.h"

namespace qkv::bindings {

// An attribute that an object has not is answered with what was meant.
PyObject* get_or_suggest(PyObject* self, PyObject* name);
// What the garbage collector sees of a module.
int traverse_module(PyObject* self, visitproc visit, void* arg);
// When it is made: `__class__` of an object stays within its class of the core.
void finish_class(PyTypeObject* type);

template <class T, class... Options> class Class : public pybind11::class_<T, Options...> {
  using Base = pybind11::class_<T, Options...>;
  static constexpr bool kModule = std::is_base_of_v<nn::Module, T>;

 public:
  template <class... Extra>
  Class(pybind11::handle scope, const char* name, const Extra&... extra)
      : Base(scope, name, pybind11::custom_type_setup([](PyHeapTypeObject* made) {
               if (kModule) made->ht_type.tp_traverse = traverse_module;
               else made->ht_type.tp_getattro = get_or_suggest;  // modules find their parts by a __getattr__
             }),
             extra...) {
    finish_class(reinterpret_cast<PyTypeObject*>(this->ptr()));
  }
};

}  // namespace qkv::bindings
