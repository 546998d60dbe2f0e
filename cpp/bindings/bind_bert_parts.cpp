// The parts of BERT, each with a forward that a subclass may define.
#include "bindings/attention_weights.h"
#include "bindings/bind_bert.h"
#include "bindings/bindings.h"
#include "bindings/call_attention.h"
#include "bindings/overridden_call.h"
#include "core/error.h"
#include "models/bert.h"

namespace qkv::bindings {

using namespace models;

// A sequence's parts are called on whole batches: rows of padding that were left out are zeros there and do not count.
template <class Part> struct SequenceForward {
  static Tensor whole(const DefinedCall& forward, const Tensor& x, const PaddedRows& rows) {
    Keywords keywords;
    keywords.add(mask_spec_of(rows), "valid_lens", "attention_mask");
    const Tensor all = rows.packed() ? unpacked(x, rows) : x;
    const Tensor y = checked_shape(forward, call_for_tensor(forward, py::make_tuple(all), keywords.all()), all.shape());
    return rows.packed() ? kept_rows(y, rows) : y;
  }
  static Tensor call(const Part&, const DefinedCall& forward, const Tensor& x, const PaddedRows& rows) {
    return whole(forward, x, rows);
  }
};
// As a call of an attention or a block says them.
PaddedRows rows_of(const nn::RaggedRows* kept, const nn::MaskSpec& mask_spec) {
  PaddedRows rows;
  if (kept != nullptr) static_cast<nn::RaggedRows&>(rows) = *kept;
  rows.mask_spec = mask_spec;
  return rows;
}
template <> struct PythonForward<BertSelfAttention> {
  static Tensor call(const BertSelfAttention& part, const DefinedCall& forward, const Tensor& x, const Tensor& keys,
                     const Tensor& values, const nn::AttentionCall& call) {
    if (keys.defined() || call.causal || call.cache != nullptr || call.weights != nullptr)  // of another block
      return call_attention(forward, &part.record, ops::Causal::none, false, x, keys, values, call);
    return SequenceForward<BertSelfAttention>::whole(forward, x, rows_of(call.rows, call.mask_spec));
  }
};
template <> struct PythonForward<BertLayer> {
  static Tensor call(const BertLayer&, const DefinedCall& forward, const Tensor& x, const Tensor&,
                     const nn::BlockCall& call) {
    return SequenceForward<BertLayer>::whole(forward, x, rows_of(call.rows, call.self));
  }
};

template <> struct PythonForward<BertEncoder> {
  static Tensor call(const BertEncoder&, const DefinedCall& forward, const Tensor& x, const PaddedRows& rows,
                     Tensors* states) {
    if (states != nullptr)
      fail_type(type_name(forward.self),
                ": forward gives the last hidden state alone; hidden_states must be those of a BertEncoder without a "
                "forward of its own");
    return SequenceForward<BertEncoder>::whole(forward, x, rows);
  }
};

template <> struct PythonForward<BertEmbeddings> {
  static Tensor call(const BertEmbeddings& part, const DefinedCall& forward, const Array& ids, const Array& segments,
                     const PaddedRows& rows) {
    Keywords keywords;
    keywords.add("token_type_ids", segments);
    const Tensor y = call_for_tensor(forward, py::make_tuple(Tensor(ids)), keywords.all());
    checked_shape(forward, y, {rows.batch, rows.length, part.arguments.hidden_size});
    return rows.packed() ? kept_rows(y, rows) : y;
  }
};

namespace {

// Hidden states (B, L, M) in the dtype of the part.
Tensor hidden_from(Call& call, py::handle value, const char* part, Index width, const Tensor& like) {
  const Tensor x = nn::as_dtype_of(call.floating(value, "hidden_states"), like);
  if (x.rank() != 3 || x.dim(2) != width)
    fail_value(part, ": hidden_states must be (B, L, ", width, "); got hidden_states ", x.shape());
  return x;
}

Index width_of(const BertPart& part) { return part.arguments.hidden_size; }
Index width_of(const BertLayer& part) { return part.arguments.hidden_size; }
Index width_of(const BertSelfAttention& part) { return part.bert.hidden_size; }

template <class Part> Tensor run(Part& part, const Tensor& x, const PaddedRows& rows) {
  if constexpr (std::is_same_v<Part, BertSelfAttention>)
    return part.Part::forward(x, Tensor(), Tensor(), {.mask_spec = rows.mask_spec});
  else if constexpr (std::is_same_v<Part, BertLayer>) return part.Part::forward(x, Tensor(), {.self = rows.mask_spec});
  else return part.Part::forward(x, rows);
}

// forward(hidden_states, *, valid_lens, attention_mask). `weight` gives a parameter of the part, whose dtype counts.
template <class Class, class Weight> void def_sequence(Class& part, const char* name, Weight weight) {
  using Part = typename Class::type;
  part.def("forward(hidden_states, *, valid_lens=None, attention_mask=None)",
           [name, weight](Part& self, py::handle hidden_states, py::handle valid_lens, py::handle attention_mask) {
             Call call(name);
             const Tensor x = hidden_from(call, hidden_states, name, width_of(self), weight(self));
             const Array lens = nn::snapshot(call.integers_or_none(valid_lens, "valid_lens"));
             const Array mask =
                 attention_mask.is_none() ? Array() : packed(call.mask(attention_mask, "attention_mask").data());
             return without_gil(
                 [&] { return run(self, x, padded_rows("BertModel", x.dim(0), x.dim(1), lens, mask, false)); });
           });
}

template <class Part> auto def_called(Functions& m, const char* name, const char* doc) {
  return def_part<Part, CalledLayerClass<Part>>(m, name, doc);
}

}  // namespace

void bind_bert_parts(Functions& m) {
  def_called<BertEmbeddings>(m, "BertEmbeddings", "Sum of word, position and segment embeddings, normalised.")
      .def("forward(input_ids, token_type_ids=None)",
           [](BertEmbeddings& self, py::handle input_ids, py::handle token_type_ids) {
             Call call("BertEmbeddings");
             const Array ids = call.integers(input_ids, "input_ids"),
                         segments = call.integers_or_none(token_type_ids, "token_type_ids");
             if (ids.rank() != 2 || (segments.defined() && segments.shape() != ids.shape()))
               fail_value("BertEmbeddings: input_ids and token_type_ids must be (B, L); got input_ids ", ids.shape(),
                          segments.defined() ? text(", token_type_ids ", segments.shape()) : "");
             return without_gil([&] {
               return self.BertEmbeddings::forward(ids, segments,
                                                   padded_rows("BertModel", ids.dim(0), ids.dim(1), {}, {}, false));
             });
           });
  auto self_attention = def_called<BertSelfAttention>(m, "BertSelfAttention", "Projections and heads of a BERT layer.");
  def_attention_weights(self_attention);
  def_sequence(self_attention, "BertSelfAttention", [](BertSelfAttention& part) { return part.q_proj->weight; });
  auto layer =
      def_called<BertLayer>(m, "BertLayer", "One layer of BERT: parts ``attention``, ``intermediate``, ``output``.");
  def_sequence(layer, "BertLayer", [](BertLayer& part) { return part.parts().linear1->weight; });
  auto encoder = def_called<BertEncoder>(m, "BertEncoder", "The layers of BERT, in the ModuleList ``layer``.");
  def_sequence(encoder, "BertEncoder", [](BertEncoder& part) {
    const auto layers = part.parts();
    return layers.empty() ? Tensor(Array({}, part.dtype())) : layers.front()->parts().linear1->weight;
  });
  auto pooler = def_part<BertPooler>(m, "BertPooler", "tanh(dense(first row)) of (B, L, M).");
  def_forward(pooler);
}

}  // namespace qkv::bindings
