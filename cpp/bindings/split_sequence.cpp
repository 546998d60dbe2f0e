#include "bindings/split_sequence.h"

#include "bindings/call_python.h"
#include "bindings/formula_source.h"

namespace qkv::bindings {
namespace {

py::object causal_object(ops::Causal causal) {
  if (causal == ops::Causal::lower_right) return py::str("lower_right");
  return py::bool_(causal != ops::Causal::none);
}

class Communicator final : public nn::SplitSequence {
 public:
  explicit Communicator(py::handle comm) : comm_(keep_alive(comm)) {}

  Array positions(Index rows, ops::Causal causal) const override {
    const InPython python;
    const py::object found =
        call_python(callback("split_positions"), py::make_tuple(comm(), rows, causal_object(causal)));
    return copy_of(found, py::none(), "positions").cast(DType::float64);
  }

  Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                   const ops::AttentionOptions& o) const override {
    const InPython python;
    const auto array = [](const Array& x) { return x.defined() ? py::cast(Tensor(x)) : py::none(); };
    // The options that follow are all that the ranks are told of.
    ops::AttentionOptions told;
    static_cast<ops::MaskSpec&>(told) = o;
    told.operation = o.operation;
    told.causal = o.causal;
    told.scale = o.scale;
    told.window = o.window;
    told.softcap = o.softcap;
    told.alibi_slopes = o.alibi_slopes;
    told.sinks = o.sinks;
    told.masked_value = o.masked_value;
    told.dropout = o.dropout;
    if (told != o)
      throw std::logic_error("attention over several processes was asked for an option that it does not pass on");
    py::dict options;
    options["attn_mask"] = o.attn_mask.defined() ? py::cast(o.attn_mask) : py::none();
    options["valid_lens"] = array(o.valid_lens);
    options["is_causal"] = causal_object(o.causal);
    options["scale"] = py::cast(o.scale);
    options["window"] = py::cast(o.window);
    options["softcap"] = o.softcap;
    options["alibi_slopes"] = array(o.alibi_slopes);
    options["sinks"] = o.sinks.defined() ? py::cast(o.sinks) : py::none();
    options["masked_value"] = py::cast(o.masked_value);
    options["dropout_p"] = o.dropout;
    options["dropout_keep"] = array(o.dropout_keep);
    Keywords functions;
    add_formula(functions, o.formula_source);
    options.attr("update")(functions.all());
    return call_python(callback("split_attention"), py::make_tuple(comm(), query, key, value, options)).cast<Tensor>();
  }

  py::handle comm() const { return static_cast<PyObject*>(comm_.get()); }

 private:
  const std::shared_ptr<void> comm_;
};

}  // namespace

std::shared_ptr<const nn::SplitSequence> split_sequence_from(py::handle comm, const char* layer) {
  if (comm.is_none()) return nullptr;
  callback("check_communicator")(comm, layer);
  return std::make_shared<const Communicator>(comm);
}

py::object shared_communicator(const py::object& comm) { return callback("shared_communicator")(comm); }

py::object communicator_of(const std::shared_ptr<const nn::SplitSequence>& split) {
  const auto* known = dynamic_cast<const Communicator*>(split.get());
  return known == nullptr ? py::none() : py::reinterpret_borrow<py::object>(known->comm());
}

}  // namespace qkv::bindings
