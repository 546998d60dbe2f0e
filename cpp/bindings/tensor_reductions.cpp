// Reductions of Python's class Tensor over axes.
#include "bindings/operation.h"
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

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
  op<Self, Axes, bool, double>(
      tensor, text(name, "(axis=None, keepdims=False, *, ddof=0.0)"), doc,
      [name, f](const Tensor& t, const std::optional<IndexList>& axes, bool keepdims, double ddof, Call&) {
        if (is_floating(t.dtype())) return without_gil(t.numel(), [&] { return f(t, axes, keepdims, ddof); });
        ops::sum(t, axes, keepdims);  // checks the axes
        return as_numpy_does(name, t, axes, keepdims, py::dict(py::arg("ddof") = ddof));
      });
}

}  // namespace

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
  op<Self, Axes, bool>(tensor, "mean(axis=None, keepdims=False)", "Mean over an axis, a tuple of axes or everything.",
                       [](const Tensor& t, const std::optional<IndexList>& axes, bool keepdims, Call&) {
                         if (is_floating(t.dtype()))
                           return without_gil(t.numel(), [&] { return ops::mean(t, axes, keepdims); });
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
  op<Self, Axis>(tensor, "cumsum(axis=None)",
                 "Sums of the numbers up to each place of an axis, or of the flattened Tensor.",
                 [](const Tensor& t, std::optional<Index> axis) {
                   return ops::cumulative_sum(axis ? t : ops::reshape(t, {-1}), axis.value_or(0));
                 });
}

}  // namespace qkv::bindings
