// What processes that share a computation need of the core; how they talk to each other is Python's (qkv.distributed).
#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/formula_source.h"
#include "bindings/options.h"
#include "core/batch_part.h"
#include "ops/attention/block.h"

namespace qkv::bindings {
namespace {

// The options of scaled_dot_product_attention that hold for a block, by the names of its arguments.
ops::AttentionOptions block_options(Call& call, const py::dict& given) {
  const char* name = call.operation();
  const auto option = [&](const char* key) -> py::object {
    return given.contains(key) ? py::object(given[key]) : py::none();
  };
  const auto number = [&](const char* key) { return number_from(option(key), name, key).value_or(0); };
  ops::AttentionOptions o;
  o.operation = name;
  if (const py::object mask = option("attn_mask"); !mask.is_none()) o.attn_mask = call.any(mask, "attn_mask", false);
  o.valid_lens = call.integers(option("valid_lens"), "valid_lens");
  if (const py::object causal = option("is_causal"); !causal.is_none()) o.causal = causal_from(causal, name);
  o.scale = number_from(option("scale"), name, "scale");
  o.enable_gqa = true;
  o.window = window_from(option("window"), name);
  o.softcap = number("softcap");
  if (const py::object slopes = option("alibi_slopes"); !slopes.is_none())
    o.alibi_slopes = packed(call.floating(slopes, "alibi_slopes", false).data());
  o.q_offset = call.integers(option("q_offset"), "q_offset");
  o.masked_value = number_from(option("masked_value"), name, "masked_value");
  o.dropout = number("dropout_p");
  o.dropout_keep = call.booleans(option("dropout_keep"), "dropout_keep");
  o.formula_source = formula_source_from(name, option("score_mod"), option("mask_mod"));
  if (const py::object key = option("dropout_key"); !key.is_none()) o.dropout_key = key.cast<std::uint64_t>();
  if (const py::object origin = option("dropout_origin"); !origin.is_none())
    std::tie(o.dropout_origin.query, o.dropout_origin.key) = origin.cast<std::pair<Index, Index>>();
  return o;
}

Array array_from(Call& call, py::handle value, const char* name) { return packed(call.floating(value, name).data()); }

py::object array_or_none(const Array& array) {
  return array.defined() ? py::object(to_numpy(array, true, false)) : py::none();
}

// An operation that Python computes: pull_back(dys) gives the gradients of the inputs, or None for those without.
class StepInPython final : public Step {
 public:
  StepInPython(std::string operation, py::handle pull_back, const Tensors& inputs)
      : operation_(std::move(operation)), pull_back_(keep_alive(pull_back)), inputs_(inputs.begin(), inputs.end()) {}

  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override {
    if (grad_enabled())
      throw std::runtime_error(operation_ + ": has no second derivative; leave out create_graph=True");
    for (const Saved& input : inputs_) input.get();  // an error if it was changed
    std::vector<Array> found(inputs_.size());
    {
      const InPython python;
      py::list arriving;
      for (const Tensor& dy : dys) arriving.append(dy.defined() ? py::object(to_numpy(dy.data(), false)) : py::none());
      const py::object results = call_python(static_cast<PyObject*>(pull_back_.get()), py::make_tuple(arriving));
      Call call(operation_.c_str());
      std::size_t i = 0;
      for (const py::handle result : results) {
        if (i < found.size() && !result.is_none()) found[i] = cloned(call.any(result, "gradient").data());
        ++i;
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined() || !dx.wants(static_cast<Index>(i))) continue;
      const Array& input = inputs_[i].get();
      if (found[i].shape() != input.shape())
        fail_value(operation_, ": gradient must be ", input.shape(), "; got gradient ", found[i].shape());
      dx.add(static_cast<Index>(i), Tensor(found[i].cast(input.dtype())));
    }
  }

 private:
  const std::string operation_;
  const std::shared_ptr<void> pull_back_;
  const std::vector<Saved> inputs_;
};

}  // namespace

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

  m.def("record_in_python(operation, outputs, inputs, pull_back)",
        [](const std::string& operation, const std::vector<py::object>& outputs, const Tensors& inputs,
           const py::function& pull_back) {
          Call call(operation.c_str());
          std::vector<Array> arrays;
          for (const py::object& output : outputs) arrays.push_back(cloned(call.floating(output, "output").data()));
          if (!wants_gradient(inputs)) {
            Tensors results;
            for (Array& array : arrays) results.emplace_back(std::move(array));
            return results;
          }
          auto step = std::make_unique<StepInPython>(operation, pull_back, inputs);
          return record_step(std::move(arrays), inputs, std::move(step));
        });

  // Keys [low, high) that the positions offset + 0 .. offset + queries - 1 may see, (..., queries) for offsets (...).
  m.def("allowed_keys(offsets, queries, keys, causal, left, right)",
        [](py::handle offsets, Index queries, Index keys, bool causal, Index left, Index right) {
          Call call("allowed_keys");
          const Array first = call.integers(offsets, "offsets");
          const kernels::KeyRules rules{
              .causal = causal, .left = left, .right = right, .q_offset = first.data<std::int64_t>()};
          Shape shape = first.shape();
          shape.push_back(queries);
          const Array low(shape, DType::int64), high(shape, DType::int64);
          for (Index i = 0; i < low.numel(); ++i) {
            const kernels::KeyRange range = kernels::keys_of(rules, i / queries, i % queries, keys);
            low.data<std::int64_t>()[i] = range.low;
            high.data<std::int64_t>()[i] = range.high;
          }
          return std::pair(to_numpy(low, true, false), to_numpy(high, true, false));
        });
  m.def("attention_by_options(query, key, value, options)", [](py::handle query, py::handle key, py::handle value,
                                                               const py::dict& options) {
    Call call("attention");
    const Tensor q = call.floating(query, "query"), k = call.floating(key, "key"), v = call.floating(value, "value");
    ops::AttentionOptions o = block_options(call, options);
    o.return_lse = true;
    const ops::AttentionOutputs y = without_gil([&] { return ops::attention(q, k, v, o); });
    return py::make_tuple(y.output, y.lse);
  });
  m.def("attention_block(query, key, value, options)",
        [](py::handle query, py::handle key, py::handle value, const py::dict& options) {
          Call call("attention");
          const Array q = array_from(call, query, "query"), k = array_from(call, key, "key"),
                      v = array_from(call, value, "value");
          const ops::AttentionOptions o = block_options(call, options);
          const ops::AttentionBlock block = without_gil([&] { return ops::attention_block(q, k, v, o); });
          return py::make_tuple(array_or_none(block.out), array_or_none(block.statistics));
        });
  m.def("attention_block_backward(dout, dlse, out, statistics, query, key, value, options)",
        [](py::handle dout, py::handle dlse, py::handle out, py::handle statistics, py::handle query, py::handle key,
           py::handle value, const py::dict& options) {
          Call call("attention");
          const Array q = array_from(call, query, "query"), k = array_from(call, key, "key"),
                      v = array_from(call, value, "value"), dy = array_from(call, dout, "dout");
          const Array of_lse = dlse.is_none() ? Array() : array_from(call, dlse, "dlse");
          const ops::AttentionBlock whole{array_from(call, out, "out"), array_from(call, statistics, "statistics")};
          const ops::AttentionOptions o = block_options(call, options);
          const ops::AttentionBlockGradients d =
              without_gil([&] { return ops::attention_block_backward(dy, of_lse, whole, q, k, v, o); });
          return py::make_tuple(array_or_none(d.query), array_or_none(d.key), array_or_none(d.value),
                                array_or_none(d.bias));
        });
}

}  // namespace qkv::bindings
