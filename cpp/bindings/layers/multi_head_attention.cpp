// Attention layers with projections, and their cache.
#include "nn/multi_head_attention.h"
#include "bindings/layers/attention_weights.h"
#include "bindings/modules/call_attention.h"
#include "bindings/operations/split_sequence.h"
#include "bindings/values/class.h"
#include "core/error.h"
#include "nn/self_attention.h"

namespace qkv::bindings {

using namespace nn;

// A forward of Python sees whole batches. What the layers of a model share reaches one that it inherits.
template <std::derived_from<MultiHeadAttention> Layer> struct PythonForward<Layer> {
  static Tensor call(const Layer& layer, const DefinedCall& forward, const Tensor& queries, const Tensor& keys,
                     const Tensor& values, const MultiHeadAttention::Call& call) {
    if (call.rows != nullptr) {
      const WholeBatch batch(*call.rows, call.shared);
      MultiHeadAttention::Call whole = call;
      whole.rows = nullptr;
      whole.mask_spec = batch.mask_spec;
      whole.shared = &batch.shared;
      return kept_rows(PythonForward::call(layer, forward, unpacked(queries, *call.rows), keys, values, whole),
                       *call.rows);
    }
    const SharedPositions::Scope lent(&layer, call.shared);
    const Tensor y = call_attention(forward, &layer.record, layer.arguments.causal, false, queries, keys, values, call);
    Shape expected = queries.shape();
    expected.back() = layer.out_features();
    return checked_shape(forward, y, expected);
  }
};

namespace {
struct MultiHeadFields : MultiHeadAttention::Arguments {
  py::object comm;
};
template <class F> void for_fields(MultiHeadFields& f, F field) {
  for_fields(static_cast<MultiHeadAttention::Arguments&>(f), field);
  for_fields(f.scores, field);
  field("comm", f.comm);
}
}  // namespace

std::optional<RelativeBias> relative_bias_from(Call& call, py::handle value, const char*) {
  if (value.is_none()) return {};
  RelativeBias bias;
  const auto wrong = [&] {
    fail_type(call.operation(),
              ": relative_bias must be None or a dict of num_buckets, max_distance (integers) and bidirectional (a "
              "bool); got ",
              described(value));
  };
  if (!py::isinstance<py::dict>(value)) wrong();
  for (const auto& [key, field] : py::reinterpret_borrow<py::dict>(value)) {
    const std::string name = py::str(key);
    if (name == "bidirectional" && py::isinstance<py::bool_>(field)) bias.bidirectional = field.cast<bool>();
    else if ((name == "num_buckets" || name == "max_distance") && py::isinstance<py::int_>(field))
      (name == "num_buckets" ? bias.num_buckets : bias.max_distance) = field.cast<Index>();
    else wrong();
  }
  return bias;
}

nn::PartNames part_names_from(Call& call, py::handle value, const char* name) {
  nn::PartNames names;
  const auto check = [&](bool good) {
    if (!good) fail_type(call.operation(), ": ", name, " must be None or a dict of strings; got ", described(value));
  };
  if (value.is_none()) return names;
  check(py::isinstance<py::dict>(value));
  for (const auto& [own, other] : py::reinterpret_borrow<py::dict>(value)) {
    check(py::isinstance<py::str>(own) && py::isinstance<py::str>(other));
    names.pairs.emplace_back(own.cast<std::string>(), other.cast<std::string>());
  }
  return names;
}

ops::RotaryScaling rotary_scaling_from(Call& call, py::handle value, const char*) {
  const char* layer = call.operation();
  ops::RotaryScaling scaling;
  if (value.is_none()) return scaling;
  const auto given = of_class<py::dict>(layer, "rotary_scaling", "be None or a dict with a rope_type", value);
  ops::for_fields(scaling, [&]<class T>(const char* field, T& member) {
    const bool kind = std::is_same_v<T, ops::RotaryScaling::Kind>;
    const char* name = kind && !given.contains(field) ? "type" : field;  // the older name
    if (!given.contains(name)) {
      if (kind) fail_value(layer, ": rotary_scaling must have a rope_type; got none");
      return;
    }
    const py::object found = given[name];
    if (found.is_none()) return;
    const auto wanted = [&](const char* one) { return text("have ", one, " as ", name); };
    if constexpr (kind) {
      const std::string word = of_class<py::str>(layer, "rotary_scaling", wanted("a str"), found);
      member = ops::rotary_scaling_named(layer, word);
    } else if constexpr (std::is_same_v<T, bool>) {
      member = of_class<py::bool_>(layer, "rotary_scaling", wanted("a bool"), found);
    } else {
      member = required_number_from(found, layer, name);
    }
  });
  return ops::checked(layer, scaling);
}

void bind_multi_head_attention(Functions& m) {
  auto self_attention =
      def_class<CalledLayerClass<SelfAttention>, Index, Index, bool, std::optional<double>, double, ops::Causal,
                std::optional<double>>(m,
                                       "SelfAttention(in_features, out_features, bias=False, *, scale=None, "
                                       "dropout=0.0, is_causal=False, masked_value=None)",
                                       std::string(R"doc(
One head without an output projection: ``softmax(scale * (x Wq)(c Wk)^T) (c Wv)``, where ``c`` is ``context`` or ``x``.

Parameters
----------
in_features, out_features : int
    Width of ``x`` and of queries, keys, values and output.
bias : bool
    Biases of the projections.
scale : float, optional
    ``1 / sqrt(out_features)`` if not given; 1.0 leaves the scores unscaled.
dropout : float
    Of the weights, in training only.
is_causal : bool or {"upper_left", "lower_right"}
    A token sees itself and those before it.
masked_value : float, optional
    See :class:`Attention`.

Attributes
----------
q_proj, k_proj, v_proj : Linear
    ``(out_features, in_features)`` each, drawn in this order.
attention_weights : Tensor
    ``(B, Lq, Lk)`` of the last call, or ``(Lq, Lk)`` if ``x`` was ``(L, M)``.

Examples
--------
>>> qkv.nn.SelfAttention(3, 2)(np.ones((6, 3))).shape
(6, 2)
)doc") + kMaskNote);
  self_attention.def_readonly("in_features, out_features", &SelfAttention::Arguments::embed_dim,
                              &SelfAttention::head_dim);
  op(self_attention,
     "forward(x, context=None, valid_lens=None, *, attn_mask=None, dropout_keep=None, return_weights=False)",
     [](SelfAttention& self, const Tensor& x, FloatingOrNone context, CallOptions& o, Call& call) {
       return o.run(o.of_attention(call, count_of(context.defined() ? context : x)),
                    [&](const auto& given) { return self.SelfAttention::forward(x, context, Tensor(), given); });
     });
  def_attention_weights(self_attention);

  Class<KVCache, std::shared_ptr<KVCache>> kv_cache(m, "KVCache", R"doc(
Keys and values of the tokens so far, so that decoding token by token computes each only once.

Passed to :class:`MultiHeadAttention`, which adds the new tokens' keys and values; its length is the position of the
next token.

Parameters
----------
capacity : int, optional
    Most tokens; more are a ValueError. Without it the cache grows.

Examples
--------
>>> attention, cache = qkv.nn.MultiHeadAttention(8, 2, is_causal=True), qkv.nn.KVCache()
>>> for token in np.ones((3, 1, 1, 8)):
...     y = attention(token, cache=cache)
>>> len(cache)
3
)doc");
  def_init<std::optional<Index>>(kv_cache, "capacity=None");
  kv_cache.def("__len__", &KVCache::length)
      .def("__bool__", [](const KVCache&) { return true; })
      .def("reset", "Forget all tokens.",
           [](KVCache& self) {
             const KVCache::Use one_thread(self);
             self.reset();
           })
      .def("KVCache: reorder(indices)", "Batch entry i continues what was entry indices[i].",
           [](KVCache& self, Integers indices) {
             const KVCache::Use one_thread(self);
             self.reorder(indices);
           })
      .def_property("capacity", &KVCache::capacity)
      .def("__repr__", &KVCache::str);
  def_pickle<py::tuple>(
      kv_cache,
      [](KVCache& self) {
        const KVCache::Use one_thread(self);
        const auto [keys, values] = self.contents();
        const auto array = [](const Tensor& x) { return numpy_or_none(x.defined() ? x.data() : Array(), false); };
        return py::make_tuple(self.capacity(), array(keys), array(values));
      },
      [](const py::tuple& state) {
        auto cache = std::make_shared<KVCache>(state[0].cast<std::optional<Index>>());
        if (!state[1].is_none())
          cache->append(Tensor(copy_of(state[1], py::none(), "KVCache")),
                        Tensor(copy_of(state[2], py::none(), "KVCache")));
        return cache;
      });

  CalledLayerClass<MultiHeadAttention> multi_head(m, "MultiHeadAttention", std::string(R"doc(
``concat(head_1, ..., head_H) Wo`` with ``head_h = softmax(q Wq_h (k Wk_h)^T / sqrt(D)) v Wv_h``.

Parameters
----------
embed_dim : int
    Width of the queries.
num_heads : int
    ``H``; divides ``embed_dim`` unless ``head_dim`` is given.
dropout : float
    Of the weights, in training only.
bias, out_bias : bool
    Biases of the three input projections and of the output's; ``out_bias`` is ``bias`` if not given.
kdim, vdim : int, optional
    Widths of keys and values; ``embed_dim`` if not given.
num_kv_heads : int, optional
    Fewer key/value heads than query heads (grouped-query attention): query head ``h`` reads
    ``h // (num_heads / num_kv_heads)``.
head_dim : int, optional
    ``D``; ``embed_dim / num_heads`` if not given.
out_dim : int, optional
    Width of the output; ``embed_dim`` if not given. 0: there is no ``out_proj``, and the heads side by side come out.
is_causal : bool or {"upper_left", "lower_right"}
    A token sees itself and those before it; a call may say otherwise.
names : dict, optional
    What projections are called instead, such as ``{"q_proj": "query"}``, in state dicts too.
comm : MPI communicator, optional
    Inputs hold the parts of sequences that :func:`qkv.distributed.positions` gives this rank, and queries attend to the
    keys of all ranks; ``valid_lens``, window and masks count whole positions. ``attention_weights`` stays None. Not with
    ``relative_bias``.
)doc") + names_of<ops::SharedOptions>() + R"doc(
    As in :func:`qkv.scaled_dot_product_attention`. ``sinks`` go with softmax alone.
alibi : bool
    Add ``-slope_h |p - j|`` to the scores, with the slopes of :func:`qkv.alibi_slopes`.
sinks : bool
    One more logit per head in the softmax's denominator, learned: the parameter ``sinks`` ``(H,)``, zeros at first.
qk_norm : {"rms", "layer"}, optional
    Normalise the features of each head of queries and keys, before rotary positions: parts ``q_norm`` and ``k_norm``.
relative_bias : dict, optional
    Add a learned number per head and distance to the scores, as T5 does: ``num_buckets=32``, ``max_distance=128``,
    ``bidirectional=True`` where the dict does not say otherwise. Half of the buckets hold one distance each, the others
    grow up to ``max_distance``; without ``bidirectional`` all keys behind a query share a bucket. The part
    ``relative_bias`` has ``weight`` ``(num_buckets, H)``, drawn from N(0, 1 / embed_dim).
rotary_base : float, optional
    Turn queries and keys by their positions (rotary embedding) with this base, such as 10000.
rotary_dim : int, optional
    The first features of each head turn, so many; all if not given.
rotary_scaling : dict, optional
    As in :func:`qkv.rotary_tables`.

Attributes
----------
comm : MPI communicator or None
q_proj, k_proj, v_proj, out_proj : Linear
    ``(H D, embed_dim)``, ``(Hkv D, kdim)``, ``(Hkv D, vdim)``, ``(out_dim, H D)``, drawn in this order. State dicts with
    PyTorch's ``in_proj_weight`` and ``in_proj_bias`` load too.
attention_weights : Tensor
    ``(B, H, Lq, Lk)`` of the last call, before dropout; computed when it is read. None before the first call.

References
----------
Vaswani et al., Attention Is All You Need, 2017, section 3.2.2; Ainslie et al., GQA, 2023; Su et al., RoFormer, 2021;
Raffel et al., T5, 2020; Henry et al., Query-Key Normalization, 2020; Xiao et al., Attention Sinks, 2023.

Examples
--------
>>> attention = qkv.nn.MultiHeadAttention(100, 5)
>>> attention(np.ones((2, 4, 100)), np.ones((2, 6, 100)), valid_lens=[3, 2]).shape
(2, 4, 100)
>>> attention.attention_weights.shape
(2, 5, 4, 6)
)doc" + kMaskNote);
  def_init<Fields<MultiHeadFields>>(
      multi_head,
      text("embed_dim, num_heads, *, dropout=0.0, bias=True, out_bias=None, kdim=None, vdim=None, num_kv_heads=None, "
           "head_dim=None, out_dim=None, is_causal=False, names=None, comm=None",
           parameters_of<ScoreOptions>()),
      [](Fields<MultiHeadFields>& f, Call& call) {
        auto split = split_sequence_from(f.value.comm, call.operation());
        return std::tuple(std::move(f.value), std::move(split));
      });
  // A score of its own would never be called, as the fused path computes q.k.
  const py::object refuse = function_of(bound<void>(
      "__init_subclass__(cls)", {},
      [](py::handle cls, const py::kwargs&) {
        if (cls.attr("__dict__").contains("score"))
          fail_type(std::string(py::str(cls.attr("__name__"))),
                    ": score must be defined in a subclass of Attention because MultiHeadAttention computes q.k "
                    "itself and would not call it; got one of MultiHeadAttention");
      },
      "Refuse a score, which would not be called."));
  multi_head.attr("__init_subclass__") = py::reinterpret_steal<py::object>(PyClassMethod_New(refuse.ptr()));
  multi_head
      .def_property(
          "comm", "Whose ranks hold the parts of the sequences; None: the inputs are whole.",
          [](const MultiHeadAttention& self) { return communicator_of(self.split_sequence.get()); },
          [](MultiHeadAttention& self, py::handle comm) {
            self.split_sequence.set(split_sequence_from(comm, "MultiHeadAttention"));
          })
      .def("__getstate__",
           [](const py::object& self) {
             const py::dict state = py::type::of<Module>().attr("__getstate__")(self);
             const py::object comm = self.attr("comm");
             if (!comm.is_none()) state["attributes"]["comm"] = shared_communicator(comm);
             return state;
           })
      .def("__setstate__",
           [](const py::object& self, const py::dict& state) {
             const py::object comm = state["attributes"].attr("pop")("comm", py::none());
             py::type::of<Module>().attr("__setstate__")(self, state);
             self.attr("comm") = comm.is_none() ? comm : comm.attr("comm");
           })
      .def_readonly("embed_dim, num_heads, num_kv_heads, head_dim", &MultiHeadAttention::Arguments::embed_dim,
                    &MultiHeadAttention::Arguments::num_heads, &MultiHeadAttention::kv_heads,
                    &MultiHeadAttention::head_dim);
  op(multi_head,
     "forward(queries, keys=None, values=None, valid_lens=None, *, attn_mask=None, is_causal=None, cache=None, "
     "dropout_keep=None, return_weights=False, score_mod=None, mask_mod=None)",
     [](MultiHeadAttention& self, const Tensor& q, FloatingOrNone k, FloatingOrNone v, CallOptions& o, Call& call) {
       return o.run(o.of_attention(call, count_of(k.defined() ? k : q)),
                    [&](const auto& given) { return self.MultiHeadAttention::forward(q, k, v, given); });
     });
  def_attention_weights(multi_head);
}

}  // namespace qkv::bindings
