// Positions as sines and cosines, added to embeddings.
#include "bindings/bindings.h"
#include "bindings/overridden_call.h"
#include "nn/positional.h"

namespace qkv::bindings {

using nn::PositionalEncoding;

// There is no keyword for an offset: rows of zeros stand before x then.
template <> struct PythonForward<PositionalEncoding> {
  static Tensor call(const PositionalEncoding&, const DefinedCall& forward, const Tensor& x, Index offset) {
    if (offset == 0) return call_for_tensor(forward, py::make_tuple(x));
    Shape before = x.shape();
    before[static_cast<std::size_t>(x.rank() - 2)] = offset;
    const Tensor all = ops::concatenate({Tensor(Array::zeros(before, x.dtype())), x}, -2);
    const Tensor y = checked_shape(forward, call_for_tensor(forward, py::make_tuple(all)), all.shape());
    return ops::slice(y, -2, offset, all.dim(-2));
  }
};

void bind_positional_encoding(Functions& m) {
  auto positional = def_class<CalledLayerClass<PositionalEncoding>, Index, double, Index>(
      m, "PositionalEncoding(num_hiddens, dropout=0.0, max_len=1000)", R"doc(
``dropout(x + P)``, where ``P[i, 2j] = sin(i / 10000^(2j / M))`` and ``P[i, 2j + 1]`` is the cosine of the same angle.

Parameters
----------
num_hiddens : int
    ``M``; may be odd.
dropout : float
    In training only.
max_len : int
    Rows of the table.

Attributes
----------
P : Tensor
    ``(1, max_len, M)`` in float64; a call adds it rounded to the dtype of ``x``.

Raises
------
ValueError
    If ``x`` has another width or more than ``max_len`` positions.

References
----------
Vaswani et al., Attention Is All You Need, 2017, section 3.5.

Examples
--------
>>> qkv.nn.PositionalEncoding(32)(np.zeros((1, 60, 32))).shape
(1, 60, 32)
)doc");
  positional.def_property("P", [](const PositionalEncoding& self) { return Tensor(self.table.clone()); });
  def_forward(positional);
}

}  // namespace qkv::bindings
