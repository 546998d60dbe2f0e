// PyTorch's gather, scatter and their kin, for qkv.torch.
#include "bindings/bindings.h"
#include "bindings/operation.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// index_select and its kin: the numbers of entries of an axis, (n) or one, as an index into x.
Array entries(const char* operation, const Tensor& x, const Array& numbers, Index axis) {
  if (numbers.rank() > 1)
    throw py::index_error(text(operation, ": index must have one axis; got shape ", numbers.shape()));
  return ops::entries_along(numbers, x.shape(), ops::checked_axis(operation, axis, x.rank()));
}

// (x, axis, index, values): the values at these places, or added to what is there.
void def_scatter(Functions& m, const char* name, const char* values, bool whole_entries, bool add) {
  op<Self, Index, Integers, Any>(m, text(name, "(x, axis, index, ", values, ")"),
                                 [=](const Tensor& x, Index axis, const Array& index, const Tensor& given) {
                                   return ops::scatter({name, "index", false, values}, x,
                                                       whole_entries ? entries(name, x, index, axis) : index, given,
                                                       axis, add);
                                 });
}

}  // namespace

void bind_indices(Functions& m) {
  op<Self, Index, Integers>(m, "gather(x, axis, index)", [](const Tensor& x, Index axis, const Array& index) {
    return ops::gather({"gather", "index"}, x, index, axis);
  });
  op<Self, Index, Integers>(m, "index_select(x, axis, index)", [](const Tensor& x, Index axis, const Array& index) {
    return ops::gather({"index_select", "index"}, x, entries("index_select", x, index, axis), axis);
  });
  def_scatter(m, "scatter", "src", false, false);
  def_scatter(m, "scatter_add", "src", false, true);
  def_scatter(m, "index_copy", "source", true, false);
  def_scatter(m, "index_add", "source", true, true);
}

}  // namespace qkv::bindings
