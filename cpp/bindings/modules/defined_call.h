// What a class in Python defines of a layer's call.
#pragma once

#include <functional>

#include "bindings/call/interpreter.h"
#include "bindings/values/convert.h"

namespace qkv::bindings {

// What containers call in Python: the module itself if its class has a __call__ of its own, as one that runs hooks,
// else its forward, of the class or of the object. Nothing if there is neither. It is looked up at each call, as Python
// does.
struct DefinedCall {
  py::object self, function;
  explicit operator bool() const { return static_cast<bool>(function); }
  // Whether its forward takes a keyword of this name; `named`: not among any others, as **options.
  bool takes(const char* keyword, bool named = false) const;
  // Whether its forward needs as many arguments, of any names, or takes any number by position.
  bool needs(Index count) const;
};

DefinedCall defined_call(py::handle self);  // null: of a module of the core, which has none

// A method that a class in Python defines; null: it has the core's.
py::object defined_method(py::handle self, const char* name);

[[noreturn]] void wrong_result(const DefinedCall& call, const char* wanted, py::handle got);
Tensor call_for_tensor(const DefinedCall& call, const py::tuple& arguments, py::handle keywords = {});

// A call of a module that Python makes while observers look: run(arguments) of a module, whose first argument and
// result they see, and may change where they are Tensors.
py::object observed_call(const py::object& self, const py::args& arguments,
                         const std::function<py::object(const py::args&)>& run);

}  // namespace qkv::bindings
