// Layers that everything is built of.
#include "bindings/bindings.h"
#include "bindings/modules/layer_class.h"
#include "bindings/modules/overridden_call.h"
#include "core/error.h"
#include "nn/basic.h"
#include "nn/positional.h"
#include "nn/transformer.h"

namespace qkv::bindings {
namespace {

using namespace nn;

std::vector<ModulePtr> modules_from(Call& call, py::handle modules, const char*) {
  std::vector<ModulePtr> found;
  for (const py::handle module : modules) {
    if (!py::isinstance<Module>(module))
      fail_type(call.operation(), ": modules must be Modules; got ", type_name(module),
                PySequence_Check(module.ptr()) != 0 ? "; write *modules for those in it" : "");
    found.push_back(module.cast<ModulePtr>());
  }
  return found;
}

Index place_from(const ModuleList& self, py::handle index, const char* what) {
  if (PyIndex_Check(index.ptr()) == 0)
    fail_type(self.class_name(), ": index must be ", what, "; got ", described(index));
  const Py_ssize_t place = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
  if (place == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return place;
}

// A part, or those of a slice as another container of the kind.
py::object item(const ModuleList& self, py::handle index) {
  if (PySlice_Check(index.ptr()) != 0) {
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(index.ptr(), &start, &stop, &step) != 0) throw py::error_already_set();
    const Py_ssize_t count = PySlice_AdjustIndices(self.length(), &start, &stop, step);
    std::vector<ModulePtr> parts;
    for (Py_ssize_t i = 0; i < count; ++i) parts.push_back(self.at(start + i * step));
    if (dynamic_cast<const Sequential*>(&self) == nullptr) return py::cast(std::make_shared<ModuleList>(parts));
    return py::cast(std::make_shared<Sequential>(parts));
  }
  return py::cast(self.at(place_from(self, index, "a number or a slice")));
}

void set_part(ModuleList& self, py::handle index, py::handle module) {
  const Index place = place_from(self, index, "a number");
  const std::string name = self.class_name();
  Call call(name.c_str());
  const ModulePtr part = modules_from(call, py::make_tuple(module), "module").front();
  self.at(place);  // or there is none
  const std::size_t entry = static_cast<std::size_t>(place < 0 ? place + self.length() : place);
  self.register_module(self.snapshot()->at(entry).name, part);
}

// A layer of one input: its name, and what its constructor takes, of the types A...
template <class Layer, class... A> LayerClass<Layer> def_layer(Functions& m, std::string_view head, const char* doc) {
  auto layer = def_class<LayerClass<Layer>, A...>(m, head, doc);
  def_forward(layer);
  if constexpr (std::is_base_of_v<Norm, Layer>)
    layer.def_property("normalized_shape", [](const Layer& self) { return shape_tuple(self.normalized_shape); })
        .def_readonly("eps", &Layer::eps);
  return layer;
}

}  // namespace

using nn::PositionalEncoding;

// There is no keyword for an offset: rows of zeros are before x then.
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

void bind_layers(Functions& m) {
  def_layer<Linear, Index, Index, bool>(m, "Linear(in_features, out_features, bias=True)", R"doc(
``y = x W^T + b``.

Parameters
----------
in_features, out_features : int
    Sizes of the last axis before and after.
bias : bool
    Add ``b``.

Attributes
----------
weight : Parameter
    ``(out_features, in_features)``, drawn as PyTorch draws it, uniform in ``+-1 / sqrt(in_features)``.
bias : Parameter or None
    ``(out_features,)``, from the same interval.

Raises
------
ValueError
    If the last axis of ``x`` is not ``in_features``.

Examples
--------
>>> qkv.nn.Linear(3, 5)(np.ones((2, 3))).shape
(2, 5)
)doc")
      .def_readonly("in_features, out_features", &Linear::in_features, &Linear::out_features);

  auto embedding = def_class<LayerClass<Embedding>, Index, Index, std::optional<Index>>(
      m, "Embedding(num_embeddings, embedding_dim, padding_idx=None)", R"doc(
A table of vectors, looked up by token id: ``y = weight[ids]``.

Parameters
----------
num_embeddings, embedding_dim : int
    Rows and columns of the table.
padding_idx : int, optional
    This row starts as zeros and gets no gradient.

Attributes
----------
weight : Parameter
    ``(num_embeddings, embedding_dim)``, drawn from N(0, 1) as in PyTorch.

Raises
------
ValueError
    If an id is not a row of the table.

Examples
--------
>>> qkv.nn.Embedding(10, 4)([[1, 2, 3]]).shape
(1, 3, 4)
)doc");
  embedding.def_readonly("num_embeddings, embedding_dim, padding_idx", &Embedding::num_embeddings,
                         &Embedding::embedding_dim, &Embedding::padding_idx);
  op(embedding, "forward(ids)", [](Embedding& self, const Array& ids) { return self.Embedding::forward(Tensor(ids)); });
  op(embedding, "logits(x, bias=None)", R"doc(
Give the scores of all rows, ``x @ weight.T + bias``: the output layer of a model that ties it to its embeddings.

Parameters
----------
x : array_like or Tensor
    ``(..., embedding_dim)``.
bias : array_like or Tensor, optional
    ``(num_embeddings,)``.

Returns
-------
Tensor
    ``(..., num_embeddings)``. Without gradients a packed copy of the table is made once and kept until it changes.

Raises
------
ValueError
    If the last axis of ``x`` is not ``embedding_dim``, or ``bias`` is not ``(num_embeddings,)``.

References
----------
Press and Wolf, Using the Output Embedding to Improve Language Models, 2017.

Examples
--------
>>> qkv.nn.Embedding(10, 4).logits(np.ones((2, 4))).shape
(2, 10)
)doc",
     [](Embedding& self, const Tensor& x, FloatingOrNone bias) { return self.logits(x, bias); });

  def_layer<LayerNorm, Sizes, double, bool, bool>(
      m, "LayerNorm(normalized_shape, eps=1e-5, elementwise_affine=True, bias=True)", R"doc(
``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the last axes.

Parameters
----------
normalized_shape : int or tuple of int
    The last axes of ``x``.
eps : float
    Added to the variance.
elementwise_affine, bias : bool
    Learn ``weight``, and ``bias`` with it.

References
----------
Ba, Kiros, Hinton, Layer Normalization, 2016.

Examples
--------
>>> qkv.nn.LayerNorm(4)(np.ones((2, 3, 4))).shape
(2, 3, 4)
)doc");

  def_layer<RMSNorm, Sizes, double>(m, "RMSNorm(normalized_shape, eps=1e-6)", R"doc(
``y = x / sqrt(mean(x^2) + eps) * weight`` over the last axes.

Parameters
----------
normalized_shape : int or tuple of int
    The last axes of ``x``.
eps : float
    Added to the mean square.

References
----------
Zhang, Sennrich, Root Mean Square Layer Normalization, 2019.

Examples
--------
>>> qkv.nn.RMSNorm(4)(np.ones((2, 3, 4))).shape
(2, 3, 4)
)doc");

  def_layer<Dropout, double>(m, "Dropout(p=0.5)", R"doc(
In training, sets numbers to 0 with probability ``p`` and scales the others by ``1 / (1 - p)``; else does nothing.

The mask is PyTorch's for the same seed.

Parameters
----------
p : float
    From 0 to 1.

Examples
--------
>>> qkv.nn.Dropout(0.5).eval()(np.ones(3))
tensor([1., 1., 1.], dtype=float64)
)doc")
      .def_readonly("p", &Dropout::p);

  def_layer<ReLU>(m, "ReLU()", R"doc(
``y = max(x, 0)``.

Examples
--------
>>> qkv.nn.ReLU()([-1.0, 2.0])
tensor([0., 2.])
)doc");

  def_layer<GELU, std::string>(m, "GELU(approximate='none')", R"doc(
``y = x Phi(x)`` with the normal distribution function ``Phi``, exact or by the approximation with tanh.

Parameters
----------
approximate : {"none", "tanh"}

References
----------
Hendrycks, Gimpel, Gaussian Error Linear Units, 2016.

Examples
--------
>>> qkv.nn.GELU()([1.0])
tensor([0.8413])
)doc");

  def_layer<Tanh>(m, "Tanh()", R"doc(
``y = tanh(x)``.

Examples
--------
>>> qkv.nn.Tanh()([1.0])
tensor([0.7616])
)doc");

  auto list = def_class<LayerClass<ModuleList>, As<modules_from>>(m, "ModuleList(modules=())", R"doc(
Modules in a list, registered under "0", "1", ...

Parameters
----------
modules : iterable of Module

Examples
--------
>>> len(qkv.nn.ModuleList([qkv.nn.Linear(2, 2) for _ in range(3)]))
3
)doc");
  list.def("append(module)", "Add a module at the end.",
           [](ModuleList& self, py::handle module) {
             Call call("ModuleList");
             self.append(modules_from(call, py::make_tuple(module), "module").front());
           })
      .def("__len__", &ModuleList::length)
      .def("__getitem__", item)
      .def("__setitem__", set_part)
      .def("__iter__", [](const ModuleList& self) {
        py::list modules;
        for (const auto& entry : *self.snapshot()) modules.append(entry.module);
        return py::iter(modules);
      });

  LayerClass<Sequential, ModuleList> sequential(m, "Sequential", R"doc(
Modules one after the other: each gets what the one before gave.

Parameters
----------
*modules : Module
    Each takes one Tensor and gives one.

Examples
--------
>>> qkv.nn.Sequential(qkv.nn.Linear(3, 5), qkv.nn.ReLU())(np.ones((2, 3))).shape
(2, 5)
)doc");
  def_init<py::args>(sequential, "", [](const py::args& modules, Call& call) {
    return std::tuple(modules_from(call, modules, "modules"));
  });
  op(sequential, "forward(x)", [](Sequential& self, Any x) { return self.Sequential::forward(x); });

  def_layer<PositionWiseFFN, Index, Index, double, std::string>(
      m, "PositionWiseFFN(d_model, dim_feedforward, dropout=0.0, activation='relu')", R"doc(
``linear2(dropout(activation(linear1(x))))``, the same for each position.

Parameters
----------
d_model, dim_feedforward : int
    Sizes outside and inside.
dropout : float
    Behind the activation, in training only.
activation : {"relu", "gelu"}

References
----------
Vaswani et al., Attention Is All You Need, 2017, section 3.3.

Examples
--------
>>> qkv.nn.PositionWiseFFN(4, 8)(np.ones((2, 3, 4))).shape
(2, 3, 4)
)doc");

  auto add_norm = def_class<LayerClass<AddNorm>, Sizes, double, double>(
      m, "AddNorm(normalized_shape, dropout=0.0, eps=1e-5)", R"doc(
``LayerNorm(x + dropout(y))``: the residual connection around a sublayer that gave ``y``.

Parameters
----------
normalized_shape : int or tuple of int
    The last axes of ``x``.
dropout : float
    Of ``y``, in training only.
eps : float
    Added to the variance.

Examples
--------
>>> qkv.nn.AddNorm(4)(np.ones((2, 3, 4)), np.ones((2, 3, 4))).shape
(2, 3, 4)
)doc");
  op(add_norm, "forward(x, y)", [](AddNorm& self, const Tensor& x, const Tensor& y) { return self.forward(x, y); });
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
