// Calls of Python functions from C++.
#pragma once

#include "bindings/interpreter.h"

namespace qkv::bindings {

// A function of Python's that the package has registered under this name (bind_callbacks.cpp).
pybind11::object callback(const char* name);

// function(*arguments, **keywords). A thread that loses Python's lock in there because the interpreter ends goes no
// further: what lies between here and its first frame cannot be destroyed without the lock.
inline pybind11::object call_python(pybind11::handle function, const pybind11::tuple& arguments,
                                    pybind11::handle keywords = {}) {
  PyObject* result = nullptr;
  take_gil([&] { result = PyObject_Call(function.ptr(), arguments.ptr(), keywords.ptr()); });
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

}  // namespace qkv::bindings
