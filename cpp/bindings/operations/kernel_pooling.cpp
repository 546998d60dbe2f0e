// Nadaraya-Watson pooling.
#include "ops/kernel_pooling.h"

#include "bindings/bindings.h"
#include "bindings/values/operation.h"

namespace qkv::bindings {
namespace {

// A number of Python's keeps all its digits; it says nothing about the result's dtype.
Tensor bandwidth_from(Call& call, py::handle value, const char* name) {
  if (PyFloat_CheckExact(value.ptr()) != 0 || PyLong_CheckExact(value.ptr()) != 0)
    return Tensor(Array::full({}, DType::float64, value.cast<double>()));
  return call.auxiliary(value, name);
}
using Bandwidth = As<bandwidth_from>;
using Kernel = As<ops::kernel_named>;

}  // namespace

void bind_kernel_pooling(Functions& m) {
  op(m, "kernel_attention(queries, keys, values, kernel, bandwidth, valid_lens, return_weights)",
     [](const Tensor& q, const Tensor& k, const Tensor& v, Kernel kernel, Bandwidth bandwidth, IntegersOrNone lens,
        bool return_weights, Call& call) {
       warn_of_swapped(call.operation(), {.valid_lens = lens}, count_of(k));
       return without_gil([&] { return ops::kernel_attention(q, k, v, kernel, bandwidth, lens, return_weights); });
     });
  op(m, "kernel_attention: scaled_distances(queries, keys, bandwidth, valid_lens=None, order=2.0)",
     [](const Tensor& q, const Tensor& k, Bandwidth bandwidth, IntegersOrNone lens, double order, Call& call) {
       warn_of_swapped(call.operation(), {.valid_lens = lens}, count_of(k));
       return without_gil([&] { return ops::scaled_distances(q, k, bandwidth, lens, order); });
     });
  op(m, "kernel_attention: pool_by_kernel(kernel_values, values, valid_lens, return_weights)",
     [](const Tensor& k, const Tensor& v, IntegersOrNone lens, bool return_weights) {
       ops::AttentionOutputs y = ops::pool_by_kernel(k, v, lens);
       if (!return_weights) y.weights = {};
       return y;
     });
  op<Floating, Kernel>(m, "kernel_values(u, kernel)", ops::kernel_values);
  op(m, "NadarayaWatson: leave_one_out_errors(X, y, kernel, bandwidths, sample_weight=None)",
     [](const Tensor& x, const Tensor& y, Kernel kernel, const std::vector<double>& bandwidths,
        FloatingOrNone sample_weight) {
       const DType dtype = ops::promoted({x, y});
       const auto as = [](const Tensor& t, DType wanted) {
         return t.defined() ? packed(t.data()).cast(wanted) : Array();
       };
       return ops::leave_one_out_errors(as(x, dtype), as(y, dtype), kernel, bandwidths,
                                        as(sample_weight, DType::float64));
     });
}

}  // namespace qkv::bindings
