#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "ops/ops.h"

namespace qkv::bindings {

void bind_loss(py::module_& m) {
  m.def("cross_entropy", [](py::handle logits, py::handle targets, py::handle weight, Index ignore_index,
                            double label_smoothing, const std::string& reduction) {
    Call call("cross_entropy");
    const Tensor x = call.floating(logits, "logits"), w = call.optional(weight, "weight");
    const Array t = call.integers(targets, "targets", false);
    const ops::Reduction r = ops::reduction_named("cross_entropy", reduction);
    return call.result(without_gil([&] { return ops::cross_entropy(x, t, w, ignore_index, label_smoothing, r); }));
  });
  m.def("nll_loss", [](py::handle log_probs, py::handle targets, py::handle weight, Index ignore_index,
                       const std::string& reduction) {
    Call call("nll_loss");
    const Tensor x = call.floating(log_probs, "log_probs"), w = call.optional(weight, "weight");
    const Array t = call.integers(targets, "targets", false);
    const ops::Reduction r = ops::reduction_named("nll_loss", reduction);
    return call.result(without_gil([&] { return ops::nll_loss(x, t, w, ignore_index, r); }));
  });
  m.def("mse", [](py::handle predictions, py::handle targets, const std::string& reduction) {
    Call call("mse");
    const Tensor x = call.floating(predictions, "predictions"), t = call.floating(targets, "targets");
    const ops::Reduction r = ops::reduction_named("mse", reduction);
    return call.result(without_gil([&] { return ops::mse(x, t, r); }));
  });
}

}  // namespace qkv::bindings
