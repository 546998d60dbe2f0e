// Nadaraya-Watson pooling.
#include "bindings/bindings.h"
#include "bindings/options.h"
#include "ops/kernel_pooling.h"

namespace qkv::bindings {
namespace {

py::object results(const Call& call, const ops::AttentionOutputs& y, bool return_weights) {
  if (!return_weights) return call.result(y.output);
  return py::make_tuple(call.result(y.output), call.result(y.weights));
}

// A number of Python's keeps all its digits; it says nothing about the result's dtype.
Tensor bandwidth_from(Call& call, py::handle value) {
  if (PyFloat_CheckExact(value.ptr()) != 0 || PyLong_CheckExact(value.ptr()) != 0)
    return Tensor(Array::full({}, DType::float64, value.cast<double>()));
  return call.floating(value, "bandwidth", false);
}

}  // namespace

void bind_kernel_pooling(Functions& m) {
  m.def("kernel_attention", [](py::handle queries, py::handle keys, py::handle values, const std::string& kernel,
                               py::handle bandwidth, py::handle valid_lens, bool return_weights) {
    Call call("kernel_attention");
    const Tensor q = call.floating(queries, "queries"), k = call.floating(keys, "keys"),
                 v = call.floating(values, "values");
    const Tensor h = bandwidth_from(call, bandwidth);
    const Array lens = call.integers(valid_lens, "valid_lens");
    warn_of_swapped("kernel_attention", {.valid_lens = lens}, count_of(k));
    const ops::Kernel named = ops::kernel_named("kernel_attention", kernel);
    const ops::AttentionOutputs y =
        without_gil([&] { return ops::kernel_attention(q, k, v, named, h, lens, return_weights); });
    return results(call, y, return_weights);
  });
  m.def("scaled_distances", [](py::handle queries, py::handle keys, py::handle bandwidth, py::handle valid_lens) {
    Call call("kernel_attention");
    const Tensor q = call.floating(queries, "queries"), k = call.floating(keys, "keys");
    const Tensor h = bandwidth_from(call, bandwidth);
    const Array lens = call.integers(valid_lens, "valid_lens");
    warn_of_swapped("kernel_attention", {.valid_lens = lens}, count_of(k));
    return call.result(without_gil([&] { return ops::scaled_distances(q, k, h, lens); }));
  });
  m.def("pool_by_kernel", [](py::handle kernel_values, py::handle values, py::handle valid_lens, bool return_weights) {
    Call call("kernel_attention");
    const Tensor k = call.floating(kernel_values, "kernel values"), v = call.floating(values, "values");
    const Array lens = call.integers(valid_lens, "valid_lens");
    const ops::AttentionOutputs y = without_gil([&] { return ops::pool_by_kernel(k, v, lens); });
    return results(call, y, return_weights);
  });
  m.def("kernel_values", [](py::handle u, const std::string& kernel) {
    Call call("kernel_values");
    const Tensor distances = call.floating(u, "u");
    const ops::Kernel named = ops::kernel_named("kernel_values", kernel);
    return call.result(without_gil(distances.numel(), [&] { return ops::kernel_values(distances, named); }));
  });
  m.def("leave_one_out_errors(points, values, kernel, bandwidths, sample_weight=None)",
        [](py::handle points, py::handle values, const std::string& kernel, const std::vector<double>& bandwidths,
           py::handle sample_weight) {
          Call call("NadarayaWatson");
          const Tensor x = call.floating(points, "X"), y = call.floating(values, "y");
          const ops::Kernel named = ops::kernel_named("NadarayaWatson", kernel);
          const DType dtype = ops::promoted({x, y});
          const Tensor given = call.optional(sample_weight, "sample_weight");
          const Array s = given.defined() ? packed(given.data()).cast(DType::float64) : Array();
          return without_gil([&] {
            return ops::leave_one_out_errors(packed(x.data()).cast(dtype), packed(y.data()).cast(dtype), named,
                                             bandwidths, s);
          });
        });
}

}  // namespace qkv::bindings
