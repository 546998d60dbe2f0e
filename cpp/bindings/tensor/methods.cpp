// Methods of Python's class Tensor: the order of numbers, and reductions over axes.
#include <algorithm>

#include "bindings/tensor/tensor_class.h"
#include "bindings/values/operation.h"
#include "ops/ops.h"
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

using Spread = Tensor (*)(const Tensor&, const std::optional<ops::Axes>&, bool, double);

// Of integers a mean and its like are NumPy's float64, summed in its order.
Tensor as_numpy_does(const char* name, const Tensor& t, const std::optional<IndexList>& axes, bool keepdims,
                     const py::dict& options = {}) {
  const py::object which = axes ? py::object(shape_tuple(*axes)) : py::object(py::none());
  const py::object result =
      to_numpy(t.data(), false).attr(name)(py::arg("axis") = which, py::arg("keepdims") = keepdims, **options);
  return Tensor(copy_of(result, py::none(), name));
}

void def_spread(TensorClass& tensor, const char* name, Spread f, const char* doc) {
  op(tensor, text(name, "(axis=None, keepdims=False, *, ddof=0.0)"), doc,
     [name, f](Self t, Axes axes, bool keepdims, double ddof, Call&) {
       if (is_floating(t.dtype())) return without_gil(t.numel(), [&] { return f(t, axes, keepdims, ddof); });
       ops::sum(t, axes, keepdims);  // checks the axes
       return as_numpy_does(name, t, axes, keepdims, py::dict(py::arg("ddof") = ddof));
     });
}

}  // namespace

void def_layout(TensorClass& tensor) {
  const auto new_axes = [](const Tensor& t, const Shape& axes, Call& call) {
    return ops::add_axes(call.operation(), t, axes);
  };
  tensor.def_property("T", "All axes reversed.", [](const Tensor& t) { return transposed(t, py::args()); });
  op(tensor, "reshape", "The same numbers under another shape; one size may be -1. A view, where strides allow it.",
     [](Self t, const py::args& shape) { return ops::reshape(t, shape_from(shape, "reshape", "shape")); });
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
  op(tensor, "ravel", "The numbers along one axis.", [](Viewed t) { return ops::reshape(t, {-1}); });
  op(tensor, "broadcast_to",
     "Repeated along axes of size 1 and new axes in front, by NumPy's rules; -1 keeps an axis. A view.",
     [](Self t, const py::args& shape) { return ops::expand(t, shape_from(shape, "broadcast_to", "shape")); });
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

void def_reductions(TensorClass& tensor) {
  const auto reduction = [&](const char* name, const char* doc, auto f) {
    op<Self, Axes, bool>(tensor, text(name, "(axis=None, keepdims=False)"), doc, f);
  };
  reduction("sum", "Sum over an axis, a tuple of axes or everything.", ops::sum);
  reduction("max", "Largest number along an axis, a tuple of axes or of everything; equal ones share the gradient.",
            ops::max);
  reduction("min", "Smallest number along an axis, a tuple of axes or of everything; equal ones share the gradient.",
            ops::min);
  reduction("prod", "Product over an axis, a tuple of axes or everything.", ops::product);
  reduction("all", "Whether all numbers along an axis, a tuple of axes or of everything are not 0.", ops::all);
  reduction("any", "Whether any number along an axis, a tuple of axes or of everything is not 0.", ops::any);
  op(tensor, "mean(axis=None, keepdims=False)", "Mean over an axis, a tuple of axes or everything.",
     [](Self t, Axes axes, bool keepdims, Call&) {
       if (is_floating(t.dtype())) return without_gil(t.numel(), [&] { return ops::mean(t, axes, keepdims); });
       const Tensor checked = ops::sum(t, axes, keepdims);
       if (checked.numel() == t.numel()) return Tensor(packed(checked.data()).cast(DType::float64));
       return as_numpy_does("mean", t, axes, keepdims);
     });
  def_spread(tensor, "var", ops::variance,
             "Variance: the squared distances from the mean, summed and divided by the count less `ddof`. As in NumPy "
             "that is 0 unless given; PyTorch's is 1.");
  def_spread(tensor, "std", ops::stddev,
             "Standard deviation: the root of the variance, with NumPy's `ddof` of 0. Its gradient at 0 is 0.");
  op<Self, Axis, bool>(
      tensor, "argmax(axis=None, keepdims=False)",
      "Where the first largest number stands along an axis, or in the flattened Tensor; int64. NaN counts as largest.",
      ops::argmax);
  op<Self, Axis, bool>(tensor, "argmin(axis=None, keepdims=False)",
                       "Where the first smallest number stands along an axis, or in the flattened Tensor; int64. NaN "
                       "counts as smallest.",
                       ops::argmin);
  op(tensor, "cumsum(axis=None)", "Sums of the numbers up to each place of an axis, or of the flattened Tensor.",
     [](Self t, Axis axis) { return ops::cumulative_sum(axis ? t : ops::reshape(t, {-1}), axis.value_or(0)); });
}

}  // namespace qkv::bindings
