// What every bound layer shares.
#pragma once

#include <pybind11/trampoline_self_life_support.h>

#include "bindings/class.h"
#include "bindings/defined_call.h"
#include "bindings/operation.h"
#include "nn/module.h"

namespace qkv::bindings {

// A layer whose forward a Python subclass may define; C++ (Sequential, say) then calls that.
template <class Base> class Overridable : public Base, public py::trampoline_self_life_support {
 public:
  using Base::Base;
  using Base::forward;
  Tensor forward(const Tensor& x) override {
    {
      const InPython python;
      const DefinedCall own = defined_call(static_cast<const Base*>(this));
      if (own) return call_for_tensor(own, py::make_tuple(x));
    }
    return Base::forward(x);
  }
};

template <class Layer, class Base = nn::Module>
using LayerClass = Class<Layer, Base, Overridable<Layer>, py::smart_holder>;

// forward(x) for layers of one floating argument.
template <class Class> void def_forward(Class& layer) {
  using Layer = typename Class::type;
  op(layer, "forward(x)", [](Layer& self, const Tensor& x) { return self.Layer::forward(x); });
}

// __init__ of a layer, and of its subclasses in Python, from what `arguments` makes of those of the call: a tuple.
template <class Class, class Arguments, class... Extra>
void def_init_from(Class& layer, Arguments arguments, const Extra&... extra) {
  const auto maker = [arguments]<class Made, class Result, class... Given>(std::in_place_type_t<Made>,
                                                                           Result (Arguments::*)(Given...) const) {
    return [arguments](Given... given) {
      return std::apply([](auto&&... all) { return std::make_unique<Made>(std::forward<decltype(all)>(all)...); },
                        arguments(std::forward<Given>(given)...));
    };
  };
  layer.def(py::init(maker(std::in_place_type<typename Class::type>, &Arguments::operator()),
                     maker(std::in_place_type<typename Class::type_alias>, &Arguments::operator())),
            extra...);
}

// Closes the docstring of every layer that takes masks.
inline constexpr const char* kMaskNote = R"doc(
Notes
-----
A query without any allowed key gets zeros. ``valid_lens`` counts the keys that may be attended to. In ``attn_mask`` True
means "may attend" and floating numbers are added to the scores; any axis may be 1.

======================  ================================================
``valid_lens``          the keys that count
======================  ================================================
``(B,)``                per item, for all queries
``(B, Lq)``             per item and query
======================  ================================================

======================  ================================================
``attn_mask``           holds for
======================  ================================================
``(Lq, Lk)``            all items and heads
``(B, Lq, Lk)``         each item, all its heads, whatever their number
``(B, H, Lq, Lk)``      each item and head
======================  ================================================

Inputs without a batch, ``(L, M)``, give outputs without one; ``valid_lens`` is then one number or ``(Lq,)``, ``attn_mask``
``(Lq, Lk)`` or ``(H, Lq, Lk)``. A call with ``return_weights=True`` gives ``(output, weights)``, and gradients flow through
the weights, too.
)doc";

}  // namespace qkv::bindings
