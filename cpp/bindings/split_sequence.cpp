#include "bindings/split_sequence.h"

#include "bindings/attention_options.h"
#include "bindings/call_python.h"

namespace qkv::bindings {
namespace {

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
    return call_python(callback("split_attention"), py::make_tuple(comm(), query, key, value, told_options(o)))
        .cast<Tensor>();
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
