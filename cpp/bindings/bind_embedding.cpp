// Embeddings, rotary positions and dropout: what stands around the attention of a model.
#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "core/random.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_embedding(Functions& m) {
  m.def("embedding", [](py::handle weight, py::handle ids, std::optional<Index> padding_idx) {
    Call call("embedding");
    const Tensor table = call.floating(weight, "weight");
    const Array rows = call.integers(ids, "ids", false);
    return call.result(without_gil([&] { return ops::embedding(table, rows, padding_idx); }));
  });
  m.def("apply_rotary(x, cos, sin, interleaved)", [](py::handle x, py::handle cos, py::handle sin, bool interleaved) {
    Call call("apply_rotary");
    const Tensor input = call.floating(x, "x"), c = call.floating(cos, "cos", false),
                 s = call.floating(sin, "sin", false);
    return call.result(
        without_gil([&] { return ops::apply_rotary(input, packed(c.data()), packed(s.data()), interleaved); }));
  });
  m.def("dropout", [](py::handle x, double p, py::handle rng) {
    Call call("dropout");
    const Tensor input = call.floating(x, "x");
    Generator& generator = rng.is_none() ? default_generator() : rng.cast<Generator&>();
    return call.result(without_gil([&] { return ops::dropout(input, p, generator); }));
  });
  m.def("dropout_with_mask", [](py::handle x, py::handle keep, double p) {
    Call call("dropout");
    const Tensor input = call.floating(x, "x");
    const Array kept = call.booleans(keep, "keep");
    return call.result(without_gil([&] { return ops::dropout_with_mask(input, kept, p); }));
  });
}

}  // namespace qkv::bindings
