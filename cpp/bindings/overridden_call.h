// Layers whose forward takes more than one argument and may be defined by a Python subclass: a container's call in C++
// becomes a call of it, with the keywords that are set.
#pragma once

#include <string>
#include <utility>

#include "bindings/bind_module.h"
#include "core/error.h"

namespace qkv::bindings {

// The keywords of a call: those that say something, so that a forward that lacks the others can be called.
class Keywords {
 public:
  void add(const char* name, const Tensor& tensor) {
    if (tensor.defined()) keywords_[name] = py::cast(tensor);
  }
  void add(const char* name, const Array& array) {
    if (array.defined()) keywords_[name] = py::cast(Tensor(array));
  }
  // Unless it is what the layer does without being told.
  void add(const char* name, ops::Causal causal, ops::Causal standard = ops::Causal::none) {
    if (causal == standard) return;
    if (causal == ops::Causal::lower_right) keywords_[name] = "lower_right";
    else keywords_[name] = py::bool_(causal == ops::Causal::upper_left);
  }
  void add(const char* name, bool set) {
    if (set) keywords_[name] = py::bool_(true);
  }
  void add(const char* name, const py::object& object) { keywords_[name] = object; }
  void add(const ops::Restriction& restriction, const char* valid_lens = "valid_lens",
           const char* attn_mask = "attn_mask") {
    add(valid_lens, restriction.valid_lens);
    add(attn_mask, restriction.attn_mask);
  }
  const py::dict& all() const { return keywords_; }

 private:
  py::dict keywords_;
};

[[noreturn]] inline void wrong_result(const py::function& forward, const char* wanted, py::handle got) {
  fail_type(type_name(forward.attr("__self__")), ": forward must return ", wanted, " to the module that calls it; got ",
            type_name(got));
}

inline Tensor call_for_tensor(const py::function& forward, const py::tuple& arguments, const Keywords& keywords) {
  const py::object result = call_python(forward, arguments, keywords.all());
  if (!is_tensor(result)) wrong_result(forward, "a Tensor", result);
  return result.cast<Tensor>();
}

inline std::pair<Tensor, Tensor> call_for_pair(const py::function& forward, const py::tuple& arguments,
                                               const Keywords& keywords, const char* wanted) {
  const py::object result = call_python(forward, arguments, keywords.all());
  if (!py::isinstance<py::tuple>(result) || py::len(result) != 2) wrong_result(forward, wanted, result);
  const auto pair = py::reinterpret_borrow<py::tuple>(result);
  for (const py::handle part : pair)
    if (!is_tensor(part)) wrong_result(forward, wanted, result);
  return {pair[0].cast<Tensor>(), pair[1].cast<Tensor>()};
}

// The output; `weights`, if there is such, gets those of the call, which are asked for then.
inline Tensor call_for_output(const py::function& forward, const py::tuple& arguments, Keywords& keywords,
                              Tensor* weights) {
  if (weights == nullptr) return call_for_tensor(forward, arguments, keywords);
  keywords.add("return_weights", true);
  auto [output, found] = call_for_pair(forward, arguments, keywords, "(output, weights)");
  *weights = std::move(found);
  return output;
}

// For each such layer: `Signature`, that of its forward, and `call`, which makes a call of Python of it.
template <class Layer> struct PythonForward;

template <class Layer, class Signature> class OverridableForward;

template <class Layer, class Output, class... Arguments>
class OverridableForward<Layer, Output(Arguments...)> : public Overridable<Layer> {
 public:
  using Overridable<Layer>::Overridable;
  using Overridable<Layer>::forward;
  Output forward(Arguments... arguments) override {
    {
      const InPython python;
      const py::function own = py::get_override(static_cast<const Layer*>(this), "forward");
      if (own) return PythonForward<Layer>::call(*this, own, arguments...);
    }
    return Layer::forward(arguments...);
  }
};

template <class Layer> using OverridableCall = OverridableForward<Layer, typename PythonForward<Layer>::Signature>;

template <class Layer> using CalledLayerClass = py::class_<Layer, nn::Module, OverridableCall<Layer>, py::smart_holder>;

}  // namespace qkv::bindings
