// Reductions of Python's class Tensor over axes.
#include "bindings/tensor_class.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

using Impl = std::shared_ptr<TensorImpl>;

// Of integers a mean and its like are NumPy's float64, summed in its order.
Tensor as_numpy_does(const char* name, const Tensor& t, const std::optional<IndexList>& axes, bool keepdims,
                     const py::dict& options = {}) {
  const py::object which = axes ? py::object(shape_tuple(*axes)) : py::object(py::none());
  const py::object result =
      to_numpy(t.data(), false).attr(name)(py::arg("axis") = which, py::arg("keepdims") = keepdims, **options);
  return Tensor(copy_of(result, py::none(), name));
}

Tensor mean(const Impl& self, py::handle axis, bool keepdims) {
  const Tensor t(self);
  const auto axes = axes_from(axis, "mean");
  if (is_floating(t.dtype())) return without_gil(t.numel(), [&] { return ops::mean(t, axes, keepdims); });
  const Tensor checked = ops::sum(t, axes, keepdims);
  if (checked.numel() == t.numel()) return Tensor(packed(checked.data()).cast(DType::float64));
  return as_numpy_does("mean", t, axes, keepdims);
}

using Spread = Tensor (*)(const Tensor&, const std::optional<ops::Axes>&, bool, double);

Tensor spread(const char* name, Spread f, const Impl& self, py::handle axis, bool keepdims, double ddof) {
  const Tensor t(self);
  const auto axes = axes_from(axis, name);
  if (is_floating(t.dtype())) return without_gil(t.numel(), [&] { return f(t, axes, keepdims, ddof); });
  ops::sum(t, axes, keepdims);  // checks the axes
  py::dict options;
  options["ddof"] = ddof;
  return as_numpy_does(name, t, axes, keepdims, options);
}

}  // namespace

void def_reductions(TensorClass& tensor) {
  const auto reduction = [&](const char* name, Tensor (*f)(const Tensor&, const std::optional<ops::Axes>&, bool),
                             const char* doc) {
    tensor.def(text(name, "(axis=None, keepdims=False)"), doc,
               [f, name](const Impl& self, py::handle axis, bool keepdims) {
                 const Tensor t(self);
                 const auto axes = axes_from(axis, name);
                 return without_gil(t.numel(), [&] { return f(t, axes, keepdims); });
               });
  };
  reduction("sum", ops::sum, "Sum over an axis, a tuple of axes or everything.");
  tensor.def("mean(axis=None, keepdims=False)", "Mean over an axis, a tuple of axes or everything.", mean);
  reduction("max", ops::max,
            "Largest number along an axis, a tuple of axes or of everything; equal ones share the gradient.");
  reduction("min", ops::min,
            "Smallest number along an axis, a tuple of axes or of everything; equal ones share the gradient.");
  reduction("prod", ops::product, "Product over an axis, a tuple of axes or everything.");
  reduction("all", ops::all, "Whether all numbers along an axis, a tuple of axes or of everything are not 0.");
  reduction("any", ops::any, "Whether any number along an axis, a tuple of axes or of everything is not 0.");

  const auto spread_over = [&](const char* name, Spread f, const char* doc) {
    tensor.def(text(name, "(axis=None, keepdims=False, *, ddof=0.0)"), doc,
               [name, f](const Impl& self, py::handle axis, bool keepdims, double ddof) {
                 return spread(name, f, self, axis, keepdims, ddof);
               });
  };
  spread_over("var", ops::variance,
              "Variance: the squared distances from the mean, summed and divided by the count less `ddof`. As in NumPy "
              "that is 0 unless given; PyTorch's is 1.");
  spread_over("std", ops::stddev,
              "Standard deviation: the root of the variance, with NumPy's `ddof` of 0. Its gradient at 0 is 0.");

  const auto place = [&](const char* name, Tensor (*f)(const Tensor&, std::optional<Index>, bool), const char* doc) {
    tensor.def(text(name, "(axis=None, keepdims=False)"), doc,
               [name, f](const Impl& self, py::handle axis, bool keepdims) {
                 const Tensor t(self);
                 const auto along = one_axis_from(axis, name);
                 return without_gil(t.numel(), [&] { return f(t, along, keepdims); });
               });
  };
  place(
      "argmax", ops::argmax,
      "Where the first largest number stands along an axis, or in the flattened Tensor; int64. NaN counts as largest.");
  place("argmin", ops::argmin,
        "Where the first smallest number stands along an axis, or in the flattened Tensor; int64. NaN counts as "
        "smallest.");
  tensor.def("cumsum(axis=None)", "Sums of the numbers up to each place of an axis, or of the flattened Tensor.",
             [](const Impl& self, py::handle axis) {
               const Tensor t(self);
               const auto along = one_axis_from(axis, "cumsum");
               const Tensor x = along ? t : ops::reshape(t, {-1});
               return without_gil(t.numel(), [&] { return ops::cumulative_sum(x, along.value_or(0)); });
             });
}

}  // namespace qkv::bindings
