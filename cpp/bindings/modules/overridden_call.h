// Layers whose forward takes more than one argument and may be defined by a Python subclass: a container's call in C++
// becomes a call of it, with the keywords that are set.
#pragma once

#include <string>
#include <utility>

#include "bindings/modules/layer_class.h"
#include "bindings/operations/keywords.h"
#include "bindings/values/class.h"
#include "core/error.h"
#include "nn/attention.h"
#include "nn/kv_cache.h"
#include "ops/ops.h"

namespace qkv::bindings {

inline std::pair<Tensor, Tensor> call_for_pair(const DefinedCall& call, const py::tuple& arguments,
                                               const Keywords& keywords, const char* wanted) {
  const py::object result = call_python(call.function, arguments, keywords.all());
  if (!py::isinstance<py::tuple>(result) || py::len(result) != 2) wrong_result(call, wanted, result);
  const auto pair = py::reinterpret_borrow<py::tuple>(result);
  for (const py::handle part : pair)
    if (!is_tensor(part)) wrong_result(call, wanted, part);
  return {pair[0].cast<Tensor>(), pair[1].cast<Tensor>()};
}

// The output; `weights`, if there is such, gets those of the call, which are asked for then.
inline Tensor call_for_output(const DefinedCall& call, const py::tuple& arguments, Keywords& keywords,
                              Tensor* weights) {
  if (weights == nullptr) return call_for_tensor(call, arguments, keywords.all());
  keywords.add("return_weights", true);
  auto [output, found] = call_for_pair(call, arguments, keywords, "(output, weights)");
  *weights = std::move(found);
  return output;
}

// The same shape, where broadcasting would hide another one.
inline Tensor checked_shape(const DefinedCall& call, Tensor y, const Shape& expected) {
  if (y.shape() != expected)
    fail_value(type_name(call.self), ": forward must return a Tensor ", expected, " to the module that calls it; got ",
               y.shape());
  return y;
}

// A forward that was given a cache has added its tokens to it.
inline void check_appended(const DefinedCall& call, const nn::KVCache& cache, Index before, Index added) {
  if (cache.length() != before + added)
    fail_value(type_name(call.self),
               ": forward must append its tokens to cache because later calls continue it; got a cache of length ",
               cache.length(), " after ", before, " and ", added, " more");
}

// For each such layer: `call`, which makes a call of Python of the arguments of its forward.
template <class Layer> struct PythonForward;

template <class Layer, class Call> class OverridableForward;

template <class Layer, class Any, class Output, class... Arguments>
class OverridableForward<Layer, Output (*)(const Any&, const DefinedCall&, Arguments...)> : public Overridable<Layer> {
 public:
  using Overridable<Layer>::Overridable;
  using Overridable<Layer>::forward;
  Output forward(Arguments... arguments) override {
    {
      const InPython python;
      const DefinedCall own = defined_call(this->object);
      if (own) return PythonForward<Layer>::call(*this, own, arguments...);
    }
    return Layer::forward(arguments...);
  }
};

template <class Layer> using OverridableCall = OverridableForward<Layer, decltype(&PythonForward<Layer>::call)>;

template <class Layer> using CalledLayerClass = Class<Layer, nn::Module, OverridableCall<Layer>, py::smart_holder>;

}  // namespace qkv::bindings
