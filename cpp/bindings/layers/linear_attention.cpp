// linear_attention and its layer.
#include "nn/linear_attention.h"
#include "bindings/bindings.h"
#include "bindings/modules/overridden_call.h"

namespace qkv::bindings {

template <> struct PythonForward<nn::LinearAttention> {
  static nn::LinearAttention::Output call(const nn::LinearAttention&, const DefinedCall& forward, const Tensor& x,
                                          const Tensor& state) {
    Keywords keywords;
    if (state.defined()) keywords.add("state", state);
    keywords.add("return_state", true);
    const auto [y, last] = call_for_pair(forward, py::make_tuple(x), keywords, "(output, state)");
    return {checked_shape(forward, y, x.shape()), last};
  }
};

static OneOrPair output_and_state(const ops::LinearAttentionOutput& y, bool return_state) {
  return {y.output, return_state ? y.state : Tensor()};
}

void bind_linear_attention(Functions& m) {
  op(m, "linear_attention(query, key, value, decay, beta, update_rule, scale, state, chunk_size, return_state)",
     [](const Tensor& q, const Tensor& k, const Tensor& v, FloatingOrNone decay, FloatingOrNone beta,
        As<ops::update_rule_named> rule, NumberOrNone scale, FloatingOrNone state, Index chunk_size,
        bool return_state) {
       return output_and_state(ops::linear_attention(q, k, v, decay, beta, state, {rule, scale, chunk_size}),
                               return_state);
     });

  using nn::LinearAttention;
  auto layer = def_class<CalledLayerClass<LinearAttention>, Index, Index, std::string, std::optional<Index>, bool>(
      m, "LinearAttention(embed_dim, num_heads, *, update_rule='linear', num_kv_heads=None, bias=False)", R"doc(
Several heads of linear attention: a state of fixed size that each step changes, instead of keys and values that are kept.

``out_proj(concat(heads))`` with the heads of :func:`qkv.linear_attention` over ``q_proj(x)``, ``k_proj(x)`` and ``v_proj(x)``.

Parameters
----------
embed_dim : int
    Width of ``x`` and of the result; a multiple of ``num_heads``, whose width is ``D = embed_dim / num_heads``.
num_heads : int
update_rule : {"linear", "gated", "delta", "gated_delta"}
    How a step changes the state. The gated ones fade it by ``log(sigmoid(decay_proj(x))) / 16``, one number for each head; the delta rules
    make keys of length 1 and correct by ``sigmoid(beta_proj(x))``.
num_kv_heads : int, optional
    How many states there are: that many heads share one. ``num_heads`` if not given.
bias : bool
    Of all projections.

Attributes
----------
q_proj, k_proj, v_proj, out_proj : Linear
decay_proj, beta_proj : Linear
    ``(embed_dim, num_kv_heads)``, where the rule needs them.

Raises
------
ValueError
    If the sizes do not divide, ``update_rule`` is none of the four, or ``x`` is not ``(B, T, embed_dim)``.

Notes
-----
Called ``(x, state=None, *, return_state=False)``; gives ``(B, T, embed_dim)`` and, if asked, the state ``(B, num_kv_heads, D, D)``, with which the
next call goes on: a step of generation costs the same at any length. Causal by nature; there are no weights to look at.

References
----------
Katharopoulos et al., Transformers are RNNs, 2020. Yang et al., Gated Linear Attention Transformers with Hardware-Efficient
Training, 2023. Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024.

Examples
--------
>>> layer = qkv.nn.LinearAttention(32, 4, update_rule="gated_delta")
>>> y, state = layer(np.ones((2, 100, 32)), return_state=True)
>>> y.shape, state.shape
((2, 100, 32), (2, 4, 8, 8))
)doc");
  layer
      .def_readonly("embed_dim, num_heads, num_kv_heads, bias", &LinearAttention::embed_dim,
                    &LinearAttention::num_heads, &LinearAttention::num_kv_heads, &LinearAttention::bias)
      .def_property("update_rule",
                    [](const LinearAttention& self) { return std::string(ops::name_of(self.update_rule)); });
  op(layer, "forward(x, state=None, *, return_state=False)",
     [](LinearAttention& self, const Tensor& x, FloatingOrNone state, bool return_state) {
       return output_and_state(self.LinearAttention::forward(x, state), return_state);
     });
}

}  // namespace qkv::bindings
