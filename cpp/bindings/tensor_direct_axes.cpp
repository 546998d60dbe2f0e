// What the core answers itself of the class derived from Tensor along axes: reductions, orders, running sums, softmax,
// and joining.
#include <array>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using OptionalAxes = std::optional<ops::Axes>;
constexpr Parameter of_axis{"dim", "axis"}, of_keeping{"keepdim", "keepdims"};

// The Tensor of (t, dim=None, keepdim=False), undefined if the call is another one.
Tensor read_over(const Given& given, const Entry& entry, OptionalAxes& axes, bool& kept) {
  const Tensor x = given.count > 0 ? tensor_of(given.values[0]) : Tensor();
  return x.defined() && read_arguments(given, entry, x, axes, kept) ? x : Tensor();
}

// Of floating numbers, unless there is no label or `any_dtype`; of all unless axes are given or `of_axes`.
template <Tensor (*reduction)(const Tensor&, const OptionalAxes&, bool), bool any_dtype = false, bool of_axes = false>
PyObject* reduced(const Given& given, const Entry& entry) {
  OptionalAxes axes;
  bool kept = false;
  const Tensor x = read_over(given, entry, axes, kept);
  if (!x.defined() || (entry.label != nullptr && !is_floating(x.dtype()) && !any_dtype) || (of_axes && !axes))
    return nullptr;
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
template <bool largest> PyObject* extreme(const Given& given, const Entry& entry) {
  PyTypeObject* cls = largest ? classes().max : classes().min;
  OptionalAxes axes;
  bool kept = false;
  const Tensor x = read_over(given, entry, axes, kept);
  if (cls == nullptr || !x.defined() || x.dtype() == DType::boolean || (axes ? axes->size() != 1 : kept))
    return nullptr;
  if (!axes)
    return view_of(given.values[0], without_gil(x.numel(), [&] { return largest ? ops::max(x) : ops::min(x); }),
                   entry.other_label);
  const auto [values, places] = without_gil(x.numel(), [&] { return ops::extreme(x, axes->front(), kept, largest); });
  return found(given, cls, values, places, entry.label);
}

// In order: a pair, or the places alone where the entry has no label.
PyObject* in_order(const Given& given, const Entry& entry) {
  const Tensor x = given.count > 0 ? tensor_of(given.values[0]) : Tensor();
  std::optional<Index> axis;
  bool descending = false, stable = false;
  if (!x.defined() || !read_arguments(given, entry, x, axis, descending, stable)) return nullptr;
  const bool both = entry.label != nullptr;
  ops::Sorted sorted = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    return ops::sort(both ? row : row.detach(), axis.value_or(-1), descending);
  });
  if (x.rank() == 0) sorted = {ops::reshape(sorted.values, {}), sorted.places.reshaped({})};
  return both ? found(given, classes().sort, sorted.values, Tensor(sorted.places), entry.label)
              : result(Tensor(sorted.places));
}

// (t, k, dim=-1, largest=True, sorted=True)
PyObject* best(const Given& given, const Entry& entry) {
  const Tensor x = given.count > 0 ? tensor_of(given.values[0]) : Tensor();
  std::optional<Index> k, axis;
  bool largest = true, sorted = true;
  if (!x.defined() || !read_arguments(given, entry, x, k, axis, largest, sorted) || !k) return nullptr;
  const auto [values, places] = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    const Array at = ops::topk(row, *k, axis.value_or(-1), largest);
    return std::pair(ops::take_along_axis(row, at, axis.value_or(-1)), Tensor(at));
  });
  return found(given, classes().topk, values, places, entry.label);
}

template <Tensor (*find)(const Tensor&, std::optional<Index>, bool)>
PyObject* place_of(const Given& given, const Entry& entry) {
  OptionalAxes axes;
  bool kept = false;
  const Tensor x = read_over(given, entry, axes, kept);
  if (!x.defined() || (axes && axes->size() != 1)) return nullptr;
  const auto axis = axes ? std::optional(axes->front()) : std::nullopt;
  return result(without_gil(x.numel(), [&] { return find(x, axis, kept); }));
}

// Of all, or along one axis.
PyObject* multiplied(const Given& given, const Entry& entry) {
  OptionalAxes axes;
  bool kept = false;
  const Tensor x = read_over(given, entry, axes, kept);
  if (!x.defined() || (given.count > 1 && PyTuple_Check(given.values[1]) != 0)) return nullptr;
  return result(without_gil(x.numel(), [&] { return ops::product(x, axes, kept); }),
                axes || kept ? entry.other_label : entry.label);
}

// (t, repeats, dim), by one number.
PyObject* repeated(const Given& given, const Entry& entry) {
  const Tensor x = given.count > 0 ? tensor_of(given.values[0]) : Tensor();
  std::optional<Index> times, axis;
  if (!x.defined() || !read_arguments(given, entry, x, times, axis) || !times || !axis || *times < 0) return nullptr;
  return view_of(given.values[0], without_gil(x.numel() * *times, [&] { return ops::repeat(x, *times, *axis); }),
                 entry.label);
}

// (t, dim=None, unbiased=None, keepdim=False, correction=None), the last one by its name.
template <Tensor (*compute)(const Tensor&, const OptionalAxes&, bool, double)>
PyObject* spread(const Given& given, const Entry& entry) {
  const Tensor x = given.count > 0 && given.count < 5 ? floating_of(given.values[0]) : Tensor();
  OptionalAxes axes;
  bool unbiased = true, kept = false;
  std::optional<Index> correction;
  if (!x.defined() || x.rank() == 0 || !read_arguments(given, entry, x, axes, unbiased, kept, correction))
    return nullptr;
  const auto ddof = static_cast<double>(correction.value_or(unbiased ? 1 : 0));
  return result(without_gil(x.numel(), [&] { return compute(x, axes, kept, ddof); }), entry.label);
}

// (tensors, dim=0), of Tensors of one floating dtype.
template <bool new_axis> PyObject* joined(const Given& given, const Entry& entry) {
  std::array<PyObject*, 1> values{};
  if (given.count == 0 || !read_parameters(given, std::span(entry.parameters).first(1), values)) return nullptr;
  PyObject* given_parts = given.values[0];
  if (PyTuple_CheckExact(given_parts) == 0 && PyList_CheckExact(given_parts) == 0) return nullptr;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(given_parts);
  Tensors parts;
  parts.reserve(static_cast<std::size_t>(count));
  Index work = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Tensor part = floating_of(PySequence_Fast_GET_ITEM(given_parts, i));
    if (!part.defined() || (!parts.empty() && part.dtype() != parts.front().dtype())) return nullptr;
    if (!new_axis && (part.rank() == 0 || (part.rank() == 1 && part.dim(0) == 0))) return nullptr;
    work += part.numel();
    parts.push_back(std::move(part));
  }
  Index axis = 0;
  if (parts.empty() || (values[0] != nullptr && !read_axis(values[0], parts.front().rank() + (new_axis ? 1 : 0), axis)))
    return nullptr;
  return result(without_gil(work, [&] { return new_axis ? ops::stack(parts, axis) : ops::concatenate(parts, axis); }),
                entry.label);
}

// (ids, weight, padding_idx=None)
PyObject* looked_up(const Given& given, const Entry& entry) {
  if (given.names != nullptr || given.count < 2 || given.count > 3) return nullptr;
  const Tensor ids = tensor_of(given.values[0]), weight = floating_of(given.values[1]);
  if (!ids.defined() || ids.dtype() != DType::int64 || !ids.data().is_packed()) return nullptr;
  if (!weight.defined() || weight.rank() != 2) return nullptr;
  std::optional<Index> padding;
  if (given.count == 3 && given.values[2] != Py_None && !read_axis(given.values[2], weight.dim(0), padding.emplace()))
    return nullptr;
  return result(without_gil(ids.numel() * weight.dim(1), [&] { return ops::embedding(weight, ids.data(), padding); }),
                entry.label);
}

Tensor cumulative_sum(const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); }
Tensor softmax(const Tensor& x, Index axis) { return ops::softmax(x, axis, 1.0); }
Tensor upper(const Tensor& x, std::optional<Index> k) { return ops::upper_triangle(x, k.value_or(0)); }
Tensor lower(const Tensor& x, std::optional<Index> k) { return ops::lower_triangle(x, k.value_or(0)); }
Tensor log_softmax(const Tensor& x, Index axis) { return ops::log_softmax(x, axis, 1.0); }

}  // namespace

std::span<const Entry> axis_entries() {
  static constexpr std::array<Parameter, 4> over{of_axis, of_keeping}, along{of_axis},
      spreading{of_axis, {"unbiased"}, of_keeping, {"correction"}}, ordering{of_axis, {"descending"}, {"stable"}};
  static constexpr Entry all[] = {
      {"sum", reduced<ops::sum, true>, "SumBackward0", "SumBackward1", over},
      {"mean", reduced<ops::mean>, "MeanBackward0", "MeanBackward1", over},
      {"prod", multiplied, "ProdBackward0", "ProdBackward1", over},
      {"amax", reduced<ops::max>, "AmaxBackward0", "AmaxBackward0", over},
      {"amin", reduced<ops::min>, "AminBackward0", "AminBackward0", over},
      {"logsumexp", reduced<ops::logsumexp, false, true>, "LogsumexpBackward0", "LogsumexpBackward0", over},
      {"embedding", looked_up, "EmbeddingBackward0"},
      {"any", reduced<ops::any>, nullptr, nullptr, over},
      {"all", reduced<ops::all>, nullptr, nullptr, over},
      {"max", extreme<true>, "MaxBackward0", "MaxBackward1", over},
      {"min", extreme<false>, "MinBackward0", "MinBackward1", over},
      {"sort", in_order, "SortBackward0", nullptr, ordering},
      {"argsort", in_order, nullptr, nullptr, ordering},
      {"topk", best, "TopkBackward0", nullptr, {{{"k"}, of_axis, {"largest"}, {"sorted"}}}},
      {"argmax", place_of<ops::argmax>, nullptr, nullptr, over},
      {"argmin", place_of<ops::argmin>, nullptr, nullptr, over},
      {"var", spread<ops::variance>, "VarBackward0", nullptr, spreading},
      {"std", spread<ops::stddev>, "StdBackward0", nullptr, spreading},
      {"cumsum", computed<cumulative_sum, Index>, "CumsumBackward0", nullptr, along},
      {"cumprod", computed<ops::cumulative_product, Index>, "CumprodBackward0", nullptr, along},
      {"softmax", computed<softmax, Index>, "SoftmaxBackward0", nullptr, along},
      {"log_softmax", computed<log_softmax, Index>, "LogSoftmaxBackward0", nullptr, along},
      {"repeat_interleave", repeated, "ViewBackward0", nullptr, {{{"repeats"}, of_axis}}},
      {"triu", computed<upper, std::optional<Index>>, "TriuBackward0", nullptr, {{{"diagonal"}}}},
      {"tril", computed<lower, std::optional<Index>>, "TrilBackward0", nullptr, {{{"diagonal"}}}},
      {"cat concat concatenate", joined<false>, "CatBackward0", nullptr, along},
      {"stack", joined<true>, "StackBackward0", nullptr, along},
  };
  return all;
}

}  // namespace qkv::bindings::direct
