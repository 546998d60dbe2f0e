// Where the numbers of Python's class Tensor stand.
#include <algorithm>

#include "bindings/operation.h"
#include "bindings/tensor_class.h"
#include "ops/shaping.h"

namespace qkv::bindings {
namespace {

Tensor repeated(const Tensor& self, py::handle repeats, const py::args& more, std::optional<Index> given, Call& call) {
  if (!more.empty())
    fail_type(
        "repeat: axis must be given by name because PyTorch's repeat(2, 1) means something else; write repeat(2, "
        "axis=1), or np.tile(t, (2, 1)) for PyTorch's; got ",
        more.size() + 1, " arguments by position");
  const Tensor t = given ? self : ops::reshape(self, {-1});
  const Array times = call.integers(repeats, "repeats");
  const Index count = times.numel() == 1 ? *times.data<std::int64_t>() : 1;
  const Index work = count > 4096 ? count : t.numel() * std::max<Index>(count, 1);
  return without_gil(work, [&] { return ops::repeat(t, times, given.value_or(0)); });
}

Tensor transposed(const Tensor& t, const py::args& given) {
  ops::Axes axes;
  if (given.empty() || (given.size() == 1 && given[0].is_none()))
    for (Index axis = t.rank(); axis-- > 0;) axes.push_back(axis);
  else
    for (const Index axis : shape_from(given, "transpose", "axes")) axes.push_back(axis < 0 ? axis + t.rank() : axis);
  return ops::transpose(t, axes);
}

}  // namespace

void def_layout(TensorClass& tensor) {
  const auto new_axes = [](const Tensor& t, const Shape& axes, Call& call) {
    return ops::add_axes(call.operation(), t, axes);
  };
  tensor.def_property("T", "All axes reversed.", [](const Tensor& t) { return transposed(t, py::args()); });
  op<Self, py::args>(
      tensor, "reshape", "The same numbers under another shape; one size may be -1. A view, where strides allow it.",
      [](const Tensor& t, const py::args& shape) { return ops::reshape(t, shape_from(shape, "reshape", "shape")); });
  op<Self, py::args>(tensor, "transpose", "Axes in another order; without arguments reversed. A view.", transposed);
  op<Viewed, Index, Index>(tensor, "swapaxes(axis1, axis2)", "Two axes exchanged; a view.", ops::swapaxes);
  op<Viewed, Sizes>(tensor, "unsqueeze(axis)",
                    "With an axis of size 1 at this place of the result; also a tuple of axes.", new_axes);
  op<Viewed, Sizes>(tensor, "expand_dims(axis)",
                    "With an axis of size 1 at this place of the result; also a tuple of axes.", new_axes);
  op<Viewed, Axes>(tensor, "squeeze(axis=None)",
                   "Without axes of size 1: all of them, or the one or those that are named.", ops::squeeze);
  op<Self, Index, Index>(tensor, "flatten(start_axis=0, end_axis=-1)",
                         "Neighbouring axes, all unless said, as one; a copy.", ops::flatten);
  op<Viewed>(tensor, "ravel", "The numbers along one axis.", [](const Tensor& t) { return ops::reshape(t, {-1}); });
  op<Self, py::args>(tensor, "broadcast_to",
                     "Repeated along axes of size 1 and new axes in front, by NumPy's rules; -1 keeps an axis. A view.",
                     [](const Tensor& t, const py::args& shape) {
                       return ops::expand(t, shape_from(shape, "broadcast_to", "shape"));
                     });
  op<Viewed, Index, Index, Index>(tensor, "diagonal(offset=0, axis1=0, axis2=1)",
                                  "The diagonal of two axes, along a last axis instead of both; a view.",
                                  ops::diagonal);
  op<Self, py::handle, py::args, Axis>(
      tensor, "repeat(repeats, axis=None)",
      "Each number so many times, next to each other, along an axis or of the flattened Tensor, as NumPy's; "
      "np.tile repeats the whole.",
      repeated);
  op<Self>(tensor, "copy",
           "The same numbers in memory of their own; gradients flow back. detach() leaves the history behind.",
           ops::copy);
}

}  // namespace qkv::bindings
