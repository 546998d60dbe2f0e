// One function per family of the interface.
#pragma once

#include <pybind11/pybind11.h>

namespace qkv::bindings {

void bind_config(pybind11::module_& m);
void bind_tensor(pybind11::module_& m);
void bind_functions(pybind11::module_& m);
void bind_random(pybind11::module_& m);
void bind_additive(pybind11::module_& m);

}  // namespace qkv::bindings
