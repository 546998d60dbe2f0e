// What processes that share a computation need of the core; how they talk to each other is Python's (qkv.distributed).
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/operations/attention_options.h"
#include "bindings/operations/split_sequence.h"
#include "bindings/values/exchange.h"
#include "core/batch_part.h"
#include "ops/attention/block.h"

namespace qkv::bindings {
namespace {

struct Communicator final : OfPython<nn::SplitSequence> {
  using OfPython::OfPython;

  Array positions(Index rows, ops::Causal causal) const override {
    const InPython python;
    const py::object found =
        call_python(callback("split_positions"), py::make_tuple(object(), rows, causal_object(causal)));
    return copy_of(found, py::none(), "positions").cast(DType::float64);
  }

  Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                   const ops::AttentionOptions& o) const override {
    const InPython python;
    return call_python(callback("split_attention"), py::make_tuple(object(), query, key, value, passed_options(o)))
        .cast<Tensor>();
  }
};

// The options of scaled_dot_product_attention that hold for a block, by the names of its arguments.
ops::AttentionOptions block_options(Call& call, const py::dict& given) {
  ops::AttentionOptions o = attention_options_from(call, given);
  o.enable_gqa = true;
  if (given.contains("dropout_origin") && !given["dropout_origin"].is_none())
    std::tie(o.dropout_origin.query, o.dropout_origin.key) = given["dropout_origin"].cast<std::pair<Index, Index>>();
  return o;
}

Array packed_numbers(Call& call, py::handle value, const char* name) {
  return packed(call.floating(value, name).data());
}
Array packed_or_none(Call& call, py::handle value, const char* name) {
  return value.is_none() ? Array() : packed_numbers(call, value, name);
}
using Packed = As<packed_numbers>;
Array numbers_of(Call& call, py::handle value, const char* name) { return call.floating(value, name).data(); }
using Strided = As<numbers_of>;
using PackedOrNone = As<packed_or_none>;

py::object array_like(const Array& x, const py::object& like) {
  return x.defined() && !like.is_none() ? as_foreign(x, like) : numpy_or_none(x, true);
}

}  // namespace

std::shared_ptr<const nn::SplitSequence> split_sequence_from(py::handle comm, const char* layer) {
  if (comm.is_none()) return nullptr;
  callback("check_communicator")(comm, layer);
  return std::make_shared<const Communicator>(comm);
}

py::object shared_communicator(const py::object& comm) { return callback("shared_communicator")(comm); }

py::object communicator_of(const std::shared_ptr<const nn::SplitSequence>& split) {
  const auto* known = dynamic_cast<const Communicator*>(split.get());
  return known == nullptr ? py::none() : py::reinterpret_borrow<py::object>(known->object());
}

void bind_processes(Functions& m) {
  m.def("set_batch_part(first, count, total)",
        [](Index first, Index count, Index total) { set_batch_part({first, count, total}); });
  m.def("batch_part", [] {
    const BatchPart part = batch_part();
    return py::make_tuple(part.first, part.count, part.total);
  });

  m.def("backward_by_leaves(output, finished)", [](const Tensor& output, const py::function& finished) {
    without_gil([&] {
      output.backward({}, false, [&](const Tensor& leaf) {
        const InPython python;
        call_python(finished, py::make_tuple(leaf));
      });
    });
  });

  // Keys [low, high) that the positions offset + 0 .. offset + queries - 1 may see, (..., queries) for offsets (...).
  op(m, "allowed_keys(offsets, queries, keys, causal, left, right)",
     [](const Array& offsets, Index queries, Index keys, bool causal, Index left, Index right) {
       const kernels::KeyRules rules{
           .causal = causal, .left = left, .right = right, .q_offset = offsets.data<std::int64_t>()};
       Shape shape = offsets.shape();
       shape.push_back(queries);
       const Array low(shape, DType::int64), high(shape, DType::int64);
       for (Index i = 0; i < low.numel(); ++i) {
         const kernels::KeyRange range = kernels::keys_of(rules, i / queries, i % queries, keys);
         low.data<std::int64_t>()[i] = range.low;
         high.data<std::int64_t>()[i] = range.high;
       }
       return std::pair(low, high);
     });
  op(m, "attention: attention_by_options(query, key, value, options)",
     [](const Tensor& q, const Tensor& k, const Tensor& v, const py::dict& options, Call& call) {
       ops::AttentionOptions o = block_options(call, options);
       o.return_lse = o.normalizer == ops::Normalizer::softmax;
       const ops::AttentionOutputs y = without_gil([&] { return ops::attention(q, k, v, o); });
       return py::make_tuple(y.output, y.lse);
     });
  // Results are of the class of `like`, NumPy's arrays without.
  op(m, "attention: attention_block(query, key, value, options, like=None)",
     [](Strided q, Strided k, Strided v, const py::dict& options, const py::object& like, Call& call) {
       const ops::AttentionOptions o = block_options(call, options);
       const ops::AttentionBlock block = without_gil([&] { return ops::attention_block(q, k, v, o); });
       return py::make_tuple(array_like(block.out, like), array_like(block.statistics, like));
     });
  op(m, "attention: attention_block_backward(dout, dlse, out, statistics, query, key, value, options, like=None)",
     [](Strided dout, PackedOrNone dlse, Strided out, Packed statistics, Strided q, Strided k, Strided v,
        const py::dict& options, const py::object& like, Call& call) {
       const ops::AttentionOptions o = block_options(call, options);
       const ops::AttentionBlockGradients d =
           without_gil([&] { return ops::attention_block_backward(dout, dlse, {out, statistics}, q, k, v, o); });
       return py::make_tuple(array_like(d.query, like), array_like(d.key, like), array_like(d.value, like),
                             array_like(d.bias, like));
     });
}

}  // namespace qkv::bindings
