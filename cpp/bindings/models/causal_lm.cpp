// The language model that only decodes.
#include <algorithm>

#include "bindings/bindings.h"
#include "bindings/layers/block.h"
#include "bindings/models/decoding.h"
#include "bindings/operations/split_sequence.h"
#include "core/error.h"
#include "models/causal_lm.h"

namespace qkv::bindings {

using namespace models;

// Called by generation, which continues a cache: of a forward without `cache` the first layer's holds all ids so far.
template <> struct PythonForward<CausalLM> {
  static Tensor call(const CausalLM& model, const DefinedCall& forward, const Array& ids, const Array& valid_lens,
                     nn::ModelCache* cache) {
    Keywords keywords;
    keywords.add("valid_lens", valid_lens);
    const auto call = [&](const Array& all) {
      const Tensor y = call_for_tensor(forward, py::make_tuple(Tensor(all)), keywords.all());
      return checked_shape(forward, y, {all.dim(0), all.dim(1), model.sizes.vocab_size});
    };
    if (cache == nullptr) return call(ids);
    if (!forward.takes("cache"))
      return nn::behind_inputs(type_name(forward.self), *cache->layers.front().cache,
                               Tensor(ids.cast(DType::float64).reshaped({ids.dim(0), ids.dim(1), 1})),
                               [&](const Tensor& all) {
                                 return call(packed(all.data()).cast(DType::int64).reshaped({all.dim(0), all.dim(1)}));
                               });
    py::list all;
    for (const auto& layer : cache->layers) all.append(py::cast(layer.cache));
    keywords.add("cache", all);
    return call(ids);
  }
};

namespace {

// Prompts of one length, together, or each alone where a list holds others: padding would be read as tokens.
std::vector<Array> prompts_from(Call& call, py::handle ids, const char* name) {
  if (PyList_Check(ids.ptr()) == 0 && PyTuple_Check(ids.ptr()) == 0) return {call.integers(ids, name)};
  const auto rows = py::reinterpret_borrow<py::sequence>(ids);
  const auto length = [](const py::handle& row) { return py::hasattr(row, "__len__") ? py::len(row) : 0; };
  if (std::all_of(rows.begin(), rows.end(), [&](py::handle row) { return length(row) == length(rows[0]); }))
    return {call.integers(ids, name)};
  std::vector<Array> prompts;
  for (const py::handle row : rows) prompts.push_back(call.integers(py::make_tuple(row), name));
  return prompts;
}

}  // namespace

void bind_causal_lm(Functions& m) {
  CalledLayerClass<CausalLMLayer> block(m, "CausalLMLayer", R"doc(
A layer of :class:`CausalLM`: ``y = x + attention(norm1(x))``, ``y + linear2(gelu(linear1(norm2(y))))``.

Parameters
----------
d_model, nhead, num_kv_heads, dim_feedforward, dropout, rotary_base, norm_eps
    As in :class:`CausalLM`.

Notes
-----
Called ``(x, *, valid_lens=None, cache=None)``; x ``(B, L, d_model)`` follows what the :class:`qkv.nn.KVCache` holds.

Examples
--------
>>> qkv.models.CausalLMLayer(16, 4)(np.ones((2, 5, 16))).shape
(2, 5, 16)
)doc");
  def_init<Fields<CausalLMSizes>>(
      block,
      "d_model, nhead, *, num_kv_heads=None, dim_feedforward=None, dropout=0.0, rotary_base=10000.0, norm_eps=1e-6",
      [](CausalLMSizes s) {
        s.vocab_size = s.num_layers = 1;
        return std::tuple(s);
      });
  op(block, "forward(x, *, valid_lens=None, cache=None)",
     [](CausalLMLayer& self, const Tensor& x, CallOptions& o, Call& call) {
       const nn::BlockCall given = o.of_block(call, count_of(x));
       return without_gil([&] { return self.CausalLMLayer::forward(x, Tensor(), given); });
     });
  CalledLayerClass<CausalLM> causal(m, "CausalLM", R"doc(
A language model that only decodes: each token sees itself and those before it.

``num_layers`` times ``y = x + attention(norm1(x))``, ``y + linear2(gelu(linear1(norm2(y))))``, with root-mean-square norms,
rotary positions, key and value heads that query heads share, and no biases; then a norm and a Linear layer.

Parameters
----------
vocab_size, d_model, nhead, num_layers : int
num_kv_heads : int, optional
    Heads of keys and values; ``nhead`` if not given.
dim_feedforward : int, optional
    ``4 d_model`` if not given.
dropout : float
    In training only.
rotary_base : float
norm_eps : float
comm : MPI communicator, optional
    Of :class:`qkv.nn.MultiHeadAttention` in all layers: ids hold this rank's parts of sequences.

Attributes
----------
embedding, layers, norm, output : Module
attention_weights : list of Tensor
    ``(B, H, T, T)`` of each layer.

Notes
-----
Called ``(ids, *, valid_lens=None, cache=None)``; ids ``(B, T)`` to logits ``(B, T, vocab_size)``: row ``t`` says what follows
the tokens up to ``t``. ``cache`` is a list of one :class:`qkv.nn.KVCache` per layer: ids then follow the tokens in it.
Matrices are drawn from N(0, 0.02^2), the last of each sublayer smaller by ``sqrt(2 num_layers)``.

Raises
------
ValueError
    If heads do not divide, ids are out of range, or the cache does not fit.

References
----------
Radford et al., Language Models are Unsupervised Multitask Learners, 2019. Zhang, Sennrich, Root Mean Square Layer
Normalization, 2019. Su et al., RoFormer, 2021. Ainslie et al., GQA, 2023.

Examples
--------
>>> model = qkv.models.CausalLM(27, 16, 4, 2, num_kv_heads=2)
>>> model([[3, 1, 4, 1, 5]]).shape
(1, 5, 27)
>>> [(ids, score, attention)] = model.generate([[3, 1, 4]], max_len=6, method="sample", top_k=5)[0]
>>> len(ids)
6
)doc");
  def_init<Fields<CausalLMSizes>, py::handle>(
      causal,
      "vocab_size, d_model, nhead, num_layers, *, num_kv_heads=None, dim_feedforward=None, dropout=0.0, "
      "rotary_base=10000.0, norm_eps=1e-6, comm=None",
      [](const CausalLMSizes& s, py::handle comm) { return std::tuple(s, split_sequence_from(comm, "CausalLM")); });
  causal.def_property("attention_weights", [](CausalLM& self) { return weights_of_blocks(self.parts()); });
  op(causal, "forward(ids, *, valid_lens=None, cache=None)",
     [](CausalLM& self, const Array& ids, Lengths valid_lens, py::handle cache, Call& call) {
       const auto own = model_cache_from(cache, call.operation(), self.sizes.num_layers);
       return without_gil([&] { return self.CausalLM::forward(ids, valid_lens, own.get()); });
     });
  op(causal, text("generate(ids, *, ", kGenerate, ")"),
     "What follows each of the prompts, ``(B, T)`` or a list of them with any lengths: up to ``max_len`` tokens, as\n"
     ":func:`qkv.models.generate` gives them, without attention.",
     [](CausalLM& self, As<prompts_from> all, const GenerateArguments& arguments, Call& call) {
       const GenerateOptions options = arguments.options(call.operation(), self.sizes.vocab_size);
       std::vector<std::vector<Hypothesis>> sentences;
       without_gil([&] {
         const nn::Evaluating evaluating;
         for (const Array& prompts : all) {
           const auto continuation = self.continuation(prompts);
           const Tensor last = ops::slice(Tensor(prompts), 1, prompts.dim(1) - 1, prompts.dim(1));
           const Array first = packed(last.data()).reshaped({prompts.dim(0)});
           for (auto& found : generate(*continuation, first, options)) sentences.push_back(std::move(found));
         }
       });
       return sentences_from(sentences, options.length_penalty);
     });
}

}  // namespace qkv::bindings
