// What the core answers itself of the class derived from Tensor along axes: reductions, orders, running sums, softmax,
// and joining.
#include <array>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using OptionalAxes = std::optional<ops::Axes>;

// Of floating numbers, unless there is no label or `any_dtype`; of all unless axes are given or `of_axes`.
template <Tensor (*reduction)(const Tensor&, const OptionalAxes&, bool), bool any_dtype = false, bool of_axes = false>
PyObject* reduced(const Given& given, const Tensor& x, const OptionalAxes& axes, bool kept) {
  const Entry& entry = given.entry;
  if ((entry.label != nullptr && !is_floating(x.dtype()) && !any_dtype) || (of_axes && !axes)) return nullptr;
  return result(without_gil(x.numel(), [&] { return reduction(x, axes, kept); }),
                axes || kept ? entry.other_label : entry.label);
}

// Numbers and their places.
PyObject* found(const Given& given, PyTypeObject* cls, const Tensor& values, const Tensor& places, const char* label) {
  auto pair = py::reinterpret_steal<py::object>(cls->tp_alloc(cls, 2));
  if (!pair) throw py::error_already_set();
  PyTuple_SET_ITEM(pair.ptr(), 0, view_of(given.values[0], values, label));
  PyTuple_SET_ITEM(pair.ptr(), 1, result(places));
  return pair.release().ptr();
}

// Of all, or along one axis; beside another Tensor it means something else.
template <bool largest> PyObject* extreme(const Given& given, const Tensor& x, const OptionalAxes& axes, bool kept) {
  if (x.dtype() == DType::boolean || (axes ? axes->size() != 1 : kept)) return nullptr;
  if (!axes)
    return view_of(given.values[0], without_gil(x.numel(), [&] { return largest ? ops::max(x) : ops::min(x); }),
                   given.entry.other_label);
  const auto [values, places] = without_gil(x.numel(), [&] { return ops::extreme(x, axes->front(), kept, largest); });
  return found(given, largest ? classes().max : classes().min, values, Tensor(places), given.entry.label);
}

// In order: a pair, or the places alone where the entry has no label.
PyObject* in_order(const Given& given, const Tensor& x, std::optional<Index> axis, bool descending, bool) {
  const bool both = given.entry.label != nullptr;
  ops::Sorted sorted = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    return ops::sort(both ? row : row.detach(), axis.value_or(-1), descending);
  });
  if (x.rank() == 0) sorted = {ops::reshape(sorted.values, {}), sorted.places.reshaped({})};
  return both ? found(given, classes().sort, sorted.values, Tensor(sorted.places), given.entry.label)
              : result(Tensor(sorted.places));
}

PyObject* best(const Given& given, const Tensor& x, std::optional<Index> k, std::optional<Index> axis,
               OnUnlessSaid largest, OnUnlessSaid) {
  if (!k) return nullptr;
  const auto [values, places] = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    const Array at = ops::topk(row, *k, axis.value_or(-1), largest.on);
    return std::pair(ops::take_along_axis(row, at, axis.value_or(-1)), Tensor(at));
  });
  return found(given, classes().topk, values, places, given.entry.label);
}

template <Tensor (*find)(const Tensor&, std::optional<Index>, bool)>
PyObject* place_of(const Given&, const Tensor& x, const OptionalAxes& axes, bool kept) {
  if (axes && axes->size() != 1) return nullptr;
  const auto axis = axes ? std::optional(axes->front()) : std::nullopt;
  return result(without_gil(x.numel(), [&] { return find(x, axis, kept); }));
}

// Of all, or along one axis.
PyObject* multiplied(const Given& given, const Tensor& x, const OptionalAxes& axes, bool kept) {
  if (given.count > 1 && PyTuple_Check(given.values[1]) != 0) return nullptr;
  return reduced<ops::product, true>(given, x, axes, kept);
}

// By one number.
PyObject* repeated(const Given& given, const Tensor& x, std::optional<Index> times, std::optional<Index> axis) {
  if (!times || !axis || *times < 0) return nullptr;
  return view_of(given.values[0], without_gil(x.numel() * *times, [&] { return ops::repeat(x, *times, *axis); }),
                 given.entry.label);
}

// The correction by its name.
template <Tensor (*compute)(const Tensor&, const OptionalAxes&, bool, double)>
PyObject* spread(const Given& given, const Floats& x, const OptionalAxes& axes, OnUnlessSaid unbiased, bool kept,
                 std::optional<Index> correction) {
  if (given.count > 4 || x.rank() == 0) return nullptr;
  const auto ddof = static_cast<double>(correction.value_or(unbiased.on ? 1 : 0));
  return result(without_gil(x.numel(), [&] { return compute(x, axes, kept, ddof); }), given.entry.label);
}

// Of Tensors of one floating dtype.
template <bool new_axis> PyObject* joined(const Given& given, py::handle tensors, PyObject* dim) {
  if (PyTuple_CheckExact(tensors.ptr()) == 0 && PyList_CheckExact(tensors.ptr()) == 0) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(tensors.ptr());
  Tensors parts;
  parts.reserve(static_cast<std::size_t>(count));
  Index work = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Floats part;
    if (!take(PySequence_Fast_GET_ITEM(tensors.ptr(), i), 0, part) ||
        (!parts.empty() && part.dtype() != parts.front().dtype()))
      return nullptr;
    if (!new_axis && (part.rank() == 0 || (part.rank() == 1 && part.dim(0) == 0))) return nullptr;
    work += part.numel();
    parts.push_back(std::move(part));
  }
  Index axis = 0;
  if (parts.empty() || (dim != nullptr && !read_axis(dim, parts.front().rank() + (new_axis ? 1 : 0), axis)))
    return nullptr;
  return result(without_gil(work, [&] { return new_axis ? ops::stack(parts, axis) : ops::concatenate(parts, axis); }),
                given.entry.label);
}

PyObject* looked_up(const Given& given, const Tensor& ids, const Floats& weight, PyObject* row) {
  if (ids.dtype() != DType::int64 || !ids.data().is_packed() || weight.rank() != 2) return nullptr;
  std::optional<Index> padding;
  if (row != nullptr && row != Py_None && !read_axis(row, weight.dim(0), padding.emplace())) return nullptr;
  return result(without_gil(ids.numel() * weight.dim(1), [&] { return ops::embedding(weight, ids.data(), padding); }),
                given.entry.label);
}

Tensor cumulative_sum(const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); }
Tensor softmax(const Tensor& x, Index axis) { return ops::softmax(x, axis, 1.0); }
Tensor upper(const Tensor& x, std::optional<Index> k) { return ops::upper_triangle(x, k.value_or(0)); }
Tensor lower(const Tensor& x, std::optional<Index> k) { return ops::lower_triangle(x, k.value_or(0)); }
Tensor log_softmax(const Tensor& x, Index axis) { return ops::log_softmax(x, axis, 1.0); }

}  // namespace

std::span<const Entry> axis_entries() {
  constexpr const char *over = "dim|axis, keepdim|keepdims", *along = "dim|axis",
                       *spreading = "dim|axis, unbiased, keepdim|keepdims, correction",
                       *ordering = "dim|axis, descending, stable";
  static constexpr Entry all[] = {
      {"sum", over, call<reduced<ops::sum, true>>, "SumBackward0", "SumBackward1"},
      {"mean", over, call<reduced<ops::mean>>, "MeanBackward0", "MeanBackward1"},
      {"prod", over, call<multiplied>, "ProdBackward0", "ProdBackward1"},
      {"amax", over, call<reduced<ops::max>>, "AmaxBackward0", "AmaxBackward0"},
      {"amin", over, call<reduced<ops::min>>, "AminBackward0", "AminBackward0"},
      {"logsumexp", over, call<reduced<ops::logsumexp, false, true>>, "LogsumexpBackward0", "LogsumexpBackward0"},
      {"embedding", call<looked_up>, "EmbeddingBackward0"},
      {"any", over, call<reduced<ops::any>>},
      {"all", over, call<reduced<ops::all>>},
      {"max", over, call<extreme<true>>, "MaxBackward0", "MaxBackward1"},
      {"min", over, call<extreme<false>>, "MinBackward0", "MinBackward1"},
      {"sort", ordering, call<in_order>, "SortBackward0"},
      {"argsort", ordering, call<in_order>},
      {"topk", "k, dim|axis, largest, sorted", call<best>, "TopkBackward0"},
      {"argmax", over, call<place_of<ops::argmax>>},
      {"argmin", over, call<place_of<ops::argmin>>},
      {"var", spreading, call<spread<ops::variance>>, "VarBackward0"},
      {"std", spreading, call<spread<ops::stddev>>, "StdBackward0"},
      {"cumsum", along, computed<cumulative_sum>, "CumsumBackward0"},
      {"cumprod", along, computed<ops::cumulative_product>, "CumprodBackward0"},
      {"softmax", along, computed<softmax>, "SoftmaxBackward0"},
      {"log_softmax", along, computed<log_softmax>, "LogSoftmaxBackward0"},
      {"repeat_interleave", "repeats, dim|axis", call<repeated>, "ViewBackward0"},
      {"triu", "diagonal", computed<upper>, "TriuBackward0"},
      {"tril", "diagonal", computed<lower>, "TrilBackward0"},
      {"cat concat concatenate", along, call<joined<false>>, "CatBackward0"},
      {"stack", along, call<joined<true>>, "StackBackward0"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
