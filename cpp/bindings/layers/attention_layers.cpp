// Attention layers that differ in their score.
#include "bindings/layers/attention_weights.h"
#include "bindings/modules/call_attention.h"
#include "bindings/values/class.h"
#include "core/noncopyable.h"
#include "nn/additive_attention.h"
#include "nn/dot_product_attention.h"

namespace qkv::bindings {

using namespace nn;

template <> struct PythonForward<Attention> {
  static Tensor call(const Attention& layer, const DefinedCall& forward, const Tensor& queries, const Tensor& keys,
                     const Tensor& values, const Attention::Call& call) {
    return call_attention(forward, &layer.record, layer.arguments.causal, true, queries, keys, values, call);
  }
};
template <> struct PythonForward<DotProductAttention> : PythonForward<Attention> {};
template <> struct PythonForward<BilinearAttention> : PythonForward<Attention> {};
template <> struct PythonForward<AdditiveAttention> : PythonForward<Attention> {};

namespace {

// While one lives: what the next score on this thread takes by keyword beside queries and keys.
class ScoreInputs : NonCopyable {
 public:
  explicit ScoreInputs(const py::kwargs& inputs) : outer_(std::exchange(next_, &inputs)) {}
  ~ScoreInputs() { next_ = outer_; }
  static py::handle take() {
    const py::kwargs* inputs = std::exchange(next_, nullptr);
    return inputs == nullptr || inputs->empty() ? py::handle() : py::handle(*inputs);
  }

 private:
  static inline constinit thread_local const py::kwargs* next_ = nullptr;
  const py::kwargs* const outer_;
};

// What a function of Python that makes `inputs` into a Tensor gave back.
Tensor returned(const char* name, const py::object& result, bool records) {
  if (is_tensor(result)) return result.cast<Tensor>();
  if (records)
    fail_type(name, ": must return a Tensor because anything else has lost the gradient, which is recorded here; got ",
              described(result));
  Call call(name);
  return call.floating(result, name);
}

struct PythonNormalizer final : OfPython<ScoreNormalizer> {
  using OfPython::OfPython;
  Tensor weights(const Tensor& scores) const override {
    const InPython python;
    return returned("normalizer", call_python(object(), py::make_tuple(scores), {}), wants_gradient({scores}));
  }
};

}  // namespace

LayerNormalizer normalizer_from(Call& call, py::handle value, const char*) {
  if (py::isinstance<py::str>(value)) return {ops::normalizer_named(call.operation(), value.cast<std::string>())};
  if (PyCallable_Check(value.ptr()) == 0)
    fail_type(call.operation(), ": normalizer must be a name or a function of scores; got ", described(value));
  return {.own = std::make_shared<const PythonNormalizer>(value)};
}

template <> struct Argument<LayerNormalizer> : Argument<As<normalizer_from>> {};

namespace {

// Layers whose class in Python defines the score.
template <class Base> class OverridableAttention : public OverridableCall<Base> {
 public:
  using OverridableCall<Base>::OverridableCall;
  Tensor score(const Tensor& queries, const Tensor& keys) override {
    return step("score", queries, keys, [&] { return Base::score(queries, keys); }, ScoreInputs::take());
  }
  Tensor normalize(const Tensor& scores, const Tensor& allowed) override {
    return step("normalize", scores, allowed, [&] { return Base::normalize(scores, allowed); });
  }
  Tensor pool(const Tensor& weights, const Tensor& values) override {
    return step("pool", weights, values, [&] { return Base::pool(weights, values); });
  }

 protected:
  // Steps of the subclass's own go the general way.
  ops::AttentionOutputs attend(const Tensor& queries, const Tensor& keys, const Tensor& values,
                               const ops::AttentionOptions& options, AttentionRecord::Axes axes) override {
    return own("score") || own_steps() ? Attention::attend(queries, keys, values, options, axes)
                                       : Base::attend(queries, keys, values, options, axes);
  }
  bool own_steps() const override { return Base::own_steps() || own("normalize") || own("pool"); }

 private:
  bool own(const char* name) const {
    const InPython python;
    return static_cast<bool>(defined_method(this->object, name));
  }
  // What is allowed is an array, or None where it is all.
  static py::object argument(const Tensor& x) {
    if (!x.defined()) return py::none();
    return x.dtype() == DType::boolean ? py::object(to_numpy(x.data(), false)) : py::cast(x);
  }
  template <class Inherited>
  Tensor step(const char* name, const Tensor& first, const Tensor& second, Inherited inherited,
              py::handle keywords = {}) {
    {
      const InPython python;
      if (const py::object own = defined_method(this->object, name)) {
        return returned(name, call_python(own, py::make_tuple(first, argument(second)), keywords),
                        wants_gradient({first, second}) || wants_gradient(this->parameters()));
      }
    }
    return inherited();
  }
};

template <class Layer, class Base>
using AttentionClass = Class<Layer, Base, OverridableAttention<Layer>, py::smart_holder>;

// As of any function that has no such arguments.
[[noreturn]] void unexpected(const std::string& layer, const py::kwargs& inputs) {
  py::list known;
  for (const char* name :
       {"queries", "keys", "values", "valid_lens", "attn_mask", "is_causal", "dropout_keep", "return_weights"})
    known.append(py::make_tuple(name, false));
  fail_type(std::string(py::str(callback("misfit")(layer, known, py::none(), false, 0, py::list(inputs)))));
}

// The name, or the function.
py::object shown_normalizer(const AttentionArguments& a) {
  const auto* own = dynamic_cast<const PythonNormalizer*>(a.normalizer.own.get());
  return own != nullptr ? py::reinterpret_borrow<py::object>(own->object())
                        : py::object(py::str(ops::name_of(a.normalizer.kind)));
}

template <class Class> void def_attention_call(Class& layer) {
  using Layer = typename Class::type;
  op(layer,
     "Attention: forward(queries, keys, values, valid_lens=None, attn_mask=None, *, is_causal=None, "
     "dropout_keep=None, return_weights=False)",
     [](Layer& self, const Tensor& q, const Tensor& k, const Tensor& v, CallOptions& o, const py::kwargs& inputs,
        Call& call) {
       if (!inputs.empty() && !defined_method(derived_object(self), "score")) unexpected(self.class_name(), inputs);
       const ScoreInputs own(inputs);
       self.prepare(q, k, v);
       return o.run(o.of_attention(call, count_of(k)),
                    [&](const auto& given) { return self.Attention::forward(q, k, v, given); });
     });
  op(layer, "normalize(scores, allowed)",
     "Weights of scores (B, Lq, Lk): their softmax over the pairs that the boolean ``allowed`` holds, else 0.",
     [](Layer& self, Self scores, BooleansOrNone allowed) {
       return self.Layer::normalize(scores, allowed.defined() ? Tensor(allowed) : Tensor());
     });
  op(layer, "pool(weights, values)", "Results (B, Lq, Dv): weights (B, Lq, Lk) times values (B, Lk, Dv).",
     [](Layer& self, Self weights, Self values) { return self.Layer::pool(weights, values); });
  layer
      .def("score(queries, keys)", "Scores (B, Lq, Lk) of queries (B, Lq, Mq) and keys (B, Lk, Mk).",
           [](Layer& self, const Tensor& queries, const Tensor& keys) {
             self.prepare(queries, keys, keys);
             return without_gil([&] { return self.Layer::score(queries, keys); });
           })
      .def("__getstate__",
           [](const py::object& self) {
             const py::dict state = py::type::of<Module>().attr("__getstate__")(self);
             const AttentionArguments& a = self.cast<const Layer&>().arguments;
             if (a.normalizer.own) state["config"]["normalizer"] = shown_normalizer(a);
             return state;
           })
      .def_property("normalizer", [](const Layer& self) { return shown_normalizer(self.arguments); })
      .def_readonly("dropout, num_heads", &AttentionArguments::dropout, &AttentionArguments::num_heads);
}

// What every class takes after its own parameters.
constexpr const char* kParameters = R"doc(dropout : float
    Of the weights, in training only.
num_heads : int, optional
    ``H``: queries, keys and values are split into so many parts ``(B, H, L, M / H)``, whose results stand side by side
    again in ``(B, Lq, Mv)``. The weights are ``(B, H, Lq, Lk)``. Without it there is one head and no axis for it.
is_causal : bool or {"upper_left", "lower_right"}
    A query sees the key at its own position and those before it; a call may say otherwise.
window : (int, int), optional
    A query sees so many keys before and behind its position; -1 is unlimited.
masked_value : float, optional
    Excluded scores become this number instead of being skipped, so a query without any allowed key attends everywhere
    evenly. The documents use -1e6, -1e9 and -1e10.
normalizer : str or callable
    How scores become weights, as in :func:`qkv.scaled_dot_product_attention`; or a function of Tensors of scores
    ``(..., Lq, Lk)``, -inf where they are excluded, which gives weights of that shape; those of excluded keys become 0.
)doc";

}  // namespace

static void bind_attention_base(Functions& m) {
  auto attention = def_class<AttentionClass<Attention, Module>, Fields<AttentionArguments>>(
      m,
      "Attention(dropout=0.0, *, num_heads=None, is_causal=False, window=None, masked_value=None, "
      "normalizer='softmax')",
      std::string(R"doc(
``softmax(score(queries, keys)) @ values``: base of the attention layers, and of your own.

A subclass defines ``score(self, queries, keys)``, which gives ``(B, Lq, Lk)``, with ``num_heads`` ``(B, H, Lq, Lk)`` of
queries ``(B, H, Lq, M / H)`` and keys ``(B, H, Lk, M / H)``; this class masks, normalises, drops, pools and keeps the weights.
Further inputs of the call by keyword, such as ``layer(q, k, v, table=t)``, are those of ``score``.
It may define ``normalize(self, scores, allowed)`` and ``pool(self, weights, values)``, too: ``allowed`` is a boolean array
that holds what masks, lengths, causal order and window leave, or None where they leave all and where ``masked_value``
fills the scores; a choice of keys belongs there. Scores that are not allowed are 0 there, and their weights afterwards.

Parameters
----------
)doc") + kParameters +
          R"doc(
Examples
--------
>>> class Distance(qkv.nn.Attention):
...     def score(self, queries, keys):
...         return -((queries[..., :, None, :] - keys[..., None, :, :]) ** 2).sum(axis=-1)
>>> Distance()(np.ones((1, 2, 3)), np.ones((1, 5, 3)), np.ones((1, 5, 4))).shape
(1, 2, 4)
>>> Distance(num_heads=2)(np.ones((1, 2, 6)), np.ones((1, 5, 6)), np.ones((1, 5, 4)), is_causal=True).shape
(1, 2, 4)
)doc" + kMaskNote);
  def_attention_call(attention);
  def_attention_weights(attention);

  auto dot = def_class<AttentionClass<DotProductAttention, Attention>, Fields<AttentionArguments>, bool,
                       std::optional<double>>(
      m,
      "DotProductAttention(dropout=0.0, *, num_heads=None, is_causal=False, window=None, masked_value=None, "
      "normalizer='softmax', cosine=False, scale=None)",
      std::string(R"doc(
``softmax(scale * queries keys^T) @ values``.

Parameters
----------
dropout, num_heads, is_causal, window, masked_value, normalizer
    As in :class:`Attention`.
cosine : bool
    Scores are ``scale * cos(q, k)``: queries and keys are divided by their lengths, in each head.
scale : float, optional
    ``1 / sqrt(D)`` if not given, 1 with ``cosine``.

References
----------
Vaswani et al., Attention Is All You Need, 2017, section 3.2.1. Graves, Wayne, Danihelka, Neural Turing Machines, 2014
(cosines).

Examples
--------
>>> attention = qkv.nn.DotProductAttention()
>>> attention(np.ones((2, 1, 3)), np.ones((2, 10, 3)), np.ones((2, 10, 4)), valid_lens=[4, 6]).shape
(2, 1, 4)
>>> attention.attention_weights.shape
(2, 1, 10)
)doc") + kMaskNote);
  def_attention_call(dot);

  auto bilinear =
      def_class<AttentionClass<BilinearAttention, DotProductAttention>, Index, Index, Fields<AttentionArguments>>(
          m,
          "BilinearAttention(query_size, key_size, dropout=0.0, *, is_causal=False, window=None, masked_value=None, "
          "normalizer='softmax')",
          std::string(R"doc(
``softmax(queries W keys^T) @ values``; queries and keys may differ in width.

Parameters
----------
query_size, key_size : int
    Widths of queries and keys.
dropout, is_causal, window, masked_value, normalizer
    As in :class:`Attention`.

Attributes
----------
weight : Parameter
    ``W``, ``(query_size, key_size)``, drawn uniformly from ``+-1 / sqrt(query_size)``.

References
----------
Luong, Pham, Manning, Effective Approaches to Attention-based Neural Machine Translation, 2015, "general".

Examples
--------
>>> attention = qkv.nn.BilinearAttention(20, 2)
>>> attention(np.ones((2, 1, 20)), np.ones((2, 10, 2)), np.ones((2, 10, 4)), valid_lens=[2, 6]).shape
(2, 1, 4)
)doc") + kMaskNote);
  bilinear.def_readonly("query_size, key_size", &BilinearAttention::query_size, &BilinearAttention::key_size);
  def_attention_call(bilinear);

  AttentionClass<AdditiveAttention, Attention> additive(m, "AdditiveAttention", std::string(R"doc(
``softmax(w_v @ tanh(W_q q + W_k k)) @ values``; queries and keys may differ in width.

Parameters
----------
num_hiddens : int
    Width of the hidden layer.
dropout : float
    Of the weights, in training only.
query_size, key_size : int, optional
    Widths of queries and keys. Where they are not given, the parameters appear at the first call or when a state dict
    is loaded; until then ``parameters()`` and its relatives raise a RuntimeError.
num_heads, is_causal, window, masked_value, normalizer
    As in :class:`Attention`; each head has a part of the hidden layer.

Attributes
----------
W_q, W_k, w_v : Linear
    ``(num_hiddens, query_size)``, ``(num_hiddens, key_size)`` and ``(1, num_hiddens)`` without biases, drawn in this order.

References
----------
Bahdanau, Cho, Bengio, Neural Machine Translation by Jointly Learning to Align and Translate, 2014.

Examples
--------
>>> attention = qkv.nn.AdditiveAttention(8, query_size=20, key_size=2)
>>> attention(np.ones((2, 1, 20)), np.ones((2, 10, 2)), np.ones((2, 10, 4)), valid_lens=[2, 6]).shape
(2, 1, 4)
)doc") + kMaskNote);
  def_init<Index, double, std::optional<Index>, std::optional<Index>, Fields<AttentionArguments>>(
      additive,
      "num_hiddens, dropout=0.0, *, query_size=None, key_size=None, num_heads=None, is_causal=False, window=None, "
      "masked_value=None, normalizer='softmax'",
      [](Index n, double dropout, std::optional<Index> queries, std::optional<Index> keys, AttentionArguments a) {
        a.dropout = dropout;
        return std::tuple(n, a, queries, keys);
      });
  additive.def_readonly("num_hiddens", &AdditiveAttention::num_hiddens);
  def_attention_call(additive);
}

void bind_attention_layers(Functions& m) {
  bind_attention_base(m);
  m.def("attention_record_off", &NoAttentionRecord::active);
  m.def("set_attention_record_off", &NoAttentionRecord::set);
}

}  // namespace qkv::bindings
