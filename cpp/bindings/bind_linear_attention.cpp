// linear_attention and its layer.
#include "bindings/bindings.h"
#include "bindings/options.h"
#include "bindings/overridden_call.h"
#include "nn/linear_attention.h"

namespace qkv::bindings {

template <> struct PythonForward<nn::LinearAttention> {
  using Signature = nn::LinearAttention::Output(const Tensor&, const Tensor&);
  static nn::LinearAttention::Output call(const nn::LinearAttention&, const DefinedCall& forward, const Tensor& x,
                                          const Tensor& state) {
    Keywords keywords;
    if (state.defined()) keywords.add("state", state);
    keywords.add("return_state", true);
    const auto [y, last] = call_for_pair(forward, py::make_tuple(x), keywords, "(output, state)");
    return {checked_shape(forward, y, x.shape()), last};
  }
};

void bind_linear_attention(Functions& m) {
  m.def("linear_attention(query, key, value, decay, beta, update_rule, scale, state, chunk_size, return_state)",
        [](py::handle query, py::handle key, py::handle value, py::handle decay, py::handle beta,
           const std::string& update_rule, py::handle scale, py::handle state, Index chunk_size,
           bool return_state) -> py::object {
          const char* name = "linear_attention";
          Call call(name);
          const Tensor q = call.floating(query, "query"), k = call.floating(key, "key"),
                       v = call.floating(value, "value"), g = call.optional(decay, "decay"),
                       b = call.optional(beta, "beta"), s = call.optional(state, "state");
          const ops::LinearAttentionOptions options{ops::update_rule_named(name, update_rule),
                                                    number_from(scale, name, "scale"), chunk_size};
          const auto [output, last] =
              without_gil(q.numel() * 64, [&] { return ops::linear_attention(q, k, v, g, b, s, options); });
          if (!return_state) return call.result(output);
          return py::make_tuple(call.result(output), call.result(last));
        });

  using nn::LinearAttention;
  CalledLayerClass<LinearAttention>(m, "LinearAttention", R"doc(
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
)doc")
      .def(py::init<Index, Index, const std::string&, std::optional<Index>, bool>(),
           "embed_dim, num_heads, *, update_rule='linear', num_kv_heads=None, bias=False"_takes)
      .def_readonly("embed_dim", &LinearAttention::embed_dim)
      .def_readonly("num_heads", &LinearAttention::num_heads)
      .def_property_readonly("update_rule",
                             [](const LinearAttention& self) { return std::string(ops::name_of(self.update_rule)); })
      .def_readonly("num_kv_heads", &LinearAttention::num_kv_heads)
      .def_readonly("bias", &LinearAttention::bias)
      .def("forward(x, state=None, *, return_state=False)",
           [](LinearAttention& self, py::handle x, py::handle state, bool return_state) -> py::object {
             Call call("LinearAttention");
             const Tensor input = call.floating(x, "x"), start = call.optional(state, "state");
             const LinearAttention::Output y = without_gil([&] { return self.LinearAttention::forward(input, start); });
             if (!return_state) return py::cast(y.output);
             return py::make_tuple(y.output, y.state);
           });
}

}  // namespace qkv::bindings
