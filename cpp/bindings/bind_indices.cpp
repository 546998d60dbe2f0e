// PyTorch's gather, scatter and their kin, for qkv.torch.
#include "bindings/bindings.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// index_select and its kin: the numbers of entries of an axis, (n) or one, as an index into x.
Array entries(Call& call, const Tensor& x, py::handle index, Index axis) {
  const Array numbers = call.integers(index, "index", false);
  if (numbers.rank() > 1)
    throw py::index_error(text(call.operation(), ": index must have one axis; got shape ", numbers.shape()));
  return ops::entries_along(numbers, x.shape(), axis);
}

Tensor put(Call& call, const ops::Lookup& lookup, const Tensor& x, const Array& index, py::handle values, Index axis,
           bool add) {
  const Tensor given = call.any(values, lookup.values);
  return without_gil(index.numel(), [&] { return ops::scatter(lookup, x, index, given, axis, add); });
}

}  // namespace

void bind_indices(Functions& m) {
  m.def("gather(x, axis, index)", [](const Tensor& x, Index axis, py::handle index) {
    Call call("gather");
    const Array places = call.integers(index, "index", false);
    return without_gil(places.numel(), [&] { return ops::gather({"gather", "index"}, x, places, axis); });
  });
  m.def("index_select(x, axis, index)", [](const Tensor& x, Index axis, py::handle index) {
    Call call("index_select");
    const Array places = entries(call, x, index, axis);
    return without_gil(places.numel(), [&] { return ops::gather({"index_select", "index"}, x, places, axis); });
  });
  m.def("scatter(x, axis, index, values, add)",
        [](const Tensor& x, Index axis, py::handle index, py::handle values, bool add) {
          Call call(add ? "scatter_add" : "scatter");
          const Array places = call.integers(index, "index", false);
          return put(call, {add ? "scatter_add" : "scatter", "index", false, "src"}, x, places, values, axis, add);
        });
  m.def("index_put(x, axis, index, values, add)",
        [](const Tensor& x, Index axis, py::handle index, py::handle values, bool add) {
          Call call(add ? "index_add" : "index_copy");
          const Array places = entries(call, x, index, axis);
          return put(call, {add ? "index_add" : "index_copy", "index", false, "source"}, x, places, values, axis, add);
        });
}

}  // namespace qkv::bindings
