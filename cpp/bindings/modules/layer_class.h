// What every bound layer shares.
#pragma once

#include "bindings/modules/defined_call.h"
#include "bindings/values/class.h"
#include "bindings/values/fields.h"
#include "nn/module.h"

namespace qkv::bindings {

// A layer whose forward a Python subclass may define; C++ (Sequential, say) then calls that.
template <class Base> class Overridable : public Base, public Trampoline {
 public:
  using Base::Base;
  using Base::forward;
  Tensor forward(const Tensor& x) override {
    {
      const InPython python;
      const DefinedCall own = defined_call(object);
      if (own) return call_for_tensor(own, py::make_tuple(x));
    }
    return Base::forward(x);
  }
};

template <class Layer, class Base = nn::Module>
using LayerClass = Class<Layer, Base, Overridable<Layer>, py::smart_holder>;

// A class by its head, "Linear(in_features, out_features, bias=True)", whose constructor takes A...
template <class Bound, class... A> Bound def_class(Functions& m, std::string_view head, const std::string& doc) {
  const std::size_t list = head.find('(');
  Bound made(m, std::string(head.substr(0, list)).c_str(), doc);
  def_init<A...>(made, head.substr(list + 1, head.size() - list - 2));
  return made;
}

// forward(x) for layers of one floating argument.
template <class Class> void def_forward(Class& layer) {
  using Layer = typename Class::type;
  op(layer, "forward(x)", [](Layer& self, const Tensor& x) { return self.Layer::forward(x); });
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
