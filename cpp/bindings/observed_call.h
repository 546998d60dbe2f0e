// Calls of modules that Python makes while observers look.
#pragma once

#include <functional>

#include "bindings/convert.h"

namespace qkv::bindings {

// run(arguments) of a module, whose first argument and result they see, and may change where they are Tensors.
py::object observed_call(const py::object& self, const py::args& arguments,
                         const std::function<py::object(const py::args&)>& run);

}  // namespace qkv::bindings
