// What a class in Python defines of a layer's call.
#pragma once

#include "bindings/call_python.h"
#include "bindings/convert.h"

namespace qkv::bindings {

// What containers call in Python: the module itself if its class has a __call__ of its own, as one that runs hooks,
// else its forward. Nothing if the class defines neither.
struct DefinedCall {
  py::object self, function;
  explicit operator bool() const { return static_cast<bool>(function); }
  // Whether its forward takes a keyword of this name.
  bool takes(const char* keyword) const;
};

// `forward`: that of a class in Python, or nothing.
DefinedCall defined_call(py::handle self, py::function forward);
template <class Layer> DefinedCall defined_call(const Layer* layer) {
  const py::handle self = py::detail::get_object_handle(layer, py::detail::get_type_info(typeid(Layer)));
  return defined_call(self, py::get_override(layer, "forward"));
}

[[noreturn]] void wrong_result(const DefinedCall& call, const char* wanted, py::handle got);
Tensor call_for_tensor(const DefinedCall& call, const py::tuple& arguments, py::handle keywords = {});

}  // namespace qkv::bindings
