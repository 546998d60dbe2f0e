// The gated recurrent unit.
#include "nn/gru.h"
#include "bindings/bindings.h"
#include "bindings/modules/overridden_call.h"
#include "ops/attention/ragged.h"

namespace qkv::bindings {

template <> struct PythonForward<nn::GRU> {
  static nn::GRU::Output call(const nn::GRU& layer, const DefinedCall& forward, const Tensor& x, const Tensor& state,
                              const Array& valid_lens) {
    Keywords keywords;
    keywords.add("valid_lens", valid_lens);
    py::list arguments;
    arguments.append(x);
    if (state.defined()) arguments.append(state);
    auto [outputs, last] = call_for_pair(forward, py::tuple(arguments), keywords, "(outputs, state)");
    return {checked_shape(forward, outputs, {x.dim(0), x.dim(1), layer.hidden_size}),
            checked_shape(forward, last, {layer.num_layers, x.dim(0), layer.hidden_size})};
  }
};

void bind_gru(Functions& m) {
  using nn::GRU;
  auto gru = def_class<CalledLayerClass<GRU>, Index, Index, Index, bool, double>(
      m, "GRU(input_size, hidden_size, num_layers=1, bias=True, dropout=0.0)", R"doc(
Gated recurrent units, one or more layers of them, batch first.

For each step, with the state ``h`` before it (``*`` elementwise)::

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
    h' = (1 - z) * n + z * h

The outputs ``h'`` of a layer are the inputs of the next.

Parameters
----------
input_size, hidden_size : int
    Widths ``M`` of the input and ``H`` of the state.
num_layers : int
bias : bool
    Add the eight biases ``b``.
dropout : float
    Of the outputs of each layer but the last, in training only.

Attributes
----------
weight_ih_l0, weight_hh_l0 : Parameter
    ``(3 H, M)`` and ``(3 H, H)``: the matrices of r, z and n below each other. Layer ``i`` has ``_l{i}``, and there ``M`` is ``H``.
bias_ih_l0, bias_hh_l0 : Parameter
    ``(3 H,)``. All parameters are drawn as PyTorch draws them, uniform in ``+-1 / sqrt(H)``.

Raises
------
ValueError
    If ``x`` is not ``(B, T, input_size)`` or ``(T, input_size)``, ``state`` not ``(num_layers, B, hidden_size)``, or ``valid_lens`` not ``(B,)``
    from 0 to ``T``.

Notes
-----
Called ``(x, state=None, *, valid_lens=None)`` with ``x`` ``(B, T, M)``, or all of it without ``B``; ``state`` ``(num_layers, B, H)`` is zeros if not given.
Returns ``(outputs, state)``: the last layer's ``(B, T, H)``, and the state of each layer after the last step
``(num_layers, B, H)``. With ``valid_lens`` it is the state after the last valid step, outputs behind that are zeros, and
what ``x`` holds there is never read; a length of 0 leaves the state as it was. PyTorch's layer has the time first unless
``batch_first=True``, and takes lengths as a packed sequence.

References
----------
Cho et al., Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation, 2014. As in
PyTorch, ``r`` acts behind the product with ``W_hn``, not before it as in the paper.

Examples
--------
>>> outputs, state = qkv.nn.GRU(8, 16, 2)(np.ones((4, 7, 8)), valid_lens=[7, 3, 5, 0])
>>> outputs.shape, state.shape
((4, 7, 16), (2, 4, 16))
)doc");
  gru.def_readonly("input_size, hidden_size, num_layers, bias, dropout", &GRU::input_size, &GRU::hidden_size,
                   &GRU::num_layers, &GRU::bias, &GRU::dropout);
  op(gru, "forward(x, state=None, *, valid_lens=None)",
     [](GRU& self, const Tensor& x, FloatingOrNone state, IntegersOrNone valid_lens) {
       const GRU::Output y = self.GRU::forward(x, state, valid_lens);
       return std::pair(y.outputs, y.state);
     });
  // One layer with the weights given, as a function: x (B, T, M), state (B, H).
  op(m, "gru_layer(x, state, hidden_size, weight_ih, weight_hh, bias_ih=None, bias_hh=None)",
     [](Self x, Self state, Index hidden, Self weight_ih, Self weight_hh, FloatingOrNone bias_ih,
        FloatingOrNone bias_hh) {
       const ops::GruOutput y = ops::gru_layer({hidden}, x, state, {weight_ih, weight_hh, bias_ih, bias_hh});
       return std::pair(y.outputs, y.state);
     });
  // The rows of each of `count` steps.
  m.def("steps_apart(x, count)", [](const Tensor& x, Index count) {
    if (x.rank() != 2 || count < 1 || x.dim(0) % count != 0)
      fail_value("steps_apart: x must be (count B, M); got x ", x.shape(), ", count ", count);
    py::list parts;
    const std::vector<Index> rows(static_cast<std::size_t>(count), x.dim(0) / count);
    for (const Tensor& part : ops::rows_apart(x, rows)) parts.append(py::cast(part));
    return parts;
  });
  op(m, "lstm_step(from_input, from_state, c)", [](Self from_input, Self from_state, Self c) {
    const ops::LstmOutput y = ops::lstm_step(from_input, from_state, c);
    return std::pair(y.h, y.c);
  });
}

}  // namespace qkv::bindings
