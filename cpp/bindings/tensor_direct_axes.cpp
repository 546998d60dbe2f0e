// What the core answers itself of the class derived from Tensor along axes: reductions, orders, running sums, softmax,
// joining, and entries by number: gather, scatter and their kin, as PyTorch has them.
#include <algorithm>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "bindings/promotion.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

using OptionalAxes = std::optional<ops::Axes>;

// What numbers it is of; whole ones give int64, or their own dtype.
enum class Of { floating, any, any_in_own };
template <Tensor (*reduction)(const Tensor&, const OptionalAxes&, bool), Of numbers = Of::floating>
PyObject* reduced(const Given& given, const Typed& own, const OptionalAxes& axes, bool kept) {
  const Tensor& x = own.tensor;
  if (numbers == Of::floating && !is_floating(x.dtype())) return nullptr;
  const Tensor y = without_gil(x.numel(), [&] { return reduction(x, axes, kept); });
  return result(y, axes || kept ? given.entry.other_label : given.entry.label,
                numbers == Of::any_in_own ? *own.kind : kind_of(y.dtype()));
}

// Of all, axes must be given.
PyObject* log_sum(const Given& given, const Typed& own, const OptionalAxes& axes, bool kept) {
  return axes ? reduced<ops::logsumexp>(given, own, axes, kept) : nullptr;
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
template <bool largest> PyObject* extreme(const Given& given, const Typed& own, PyObject* dim, bool kept) {
  const Tensor& x = own.tensor;
  if (dim == nullptr || dim == Py_None)
    return kept ? nullptr : reduced<largest ? ops::max : ops::min, Of::any_in_own>(given, own, {}, false);
  Index axis = 0;
  if (!read(dim, axis)) return nullptr;
  auto [values, places] = without_gil(x.numel(), [&] {
    return ops::extreme(x.rank() > 0 ? x : ops::reshape(x, {1}), axis_from_front("", axis, x.rank()), kept, largest);
  });
  if (x.rank() == 0) values = ops::reshape(values, {}), places = ops::reshape(places, {});
  static PyTypeObject* const cls = class_named(largest ? "max" : "min");
  return found(given, cls, values, places, given.entry.other_label);
}

// In order: a pair, or the places alone where the entry has no label.
PyObject* in_order(const Given& given, const Tensor& x, std::optional<Index> axis, bool descending, bool) {
  const bool both = given.entry.label != nullptr;
  ops::Sorted sorted = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    return ops::sort(both ? row : row.detach(), axis.value_or(-1), descending);
  });
  if (x.rank() == 0) sorted = {ops::reshape(sorted.values, {}), sorted.places.reshaped({})};
  static PyTypeObject* const cls = class_named("sort");
  return both ? found(given, cls, sorted.values, Tensor(sorted.places), given.entry.label)
              : result(Tensor(sorted.places));
}

PyObject* best(const Given& given, const Tensor& x, std::optional<Index> k, std::optional<Index> axis,
               std::optional<bool> largest, bool) {
  if (!k) return nullptr;
  const auto [values, places] = without_gil(x.numel(), [&] {
    const Tensor row = x.rank() > 0 ? x : ops::reshape(x, {1});
    const Array at = ops::topk(row, *k, axis.value_or(-1), largest.value_or(true));
    return std::pair(ops::take_along_axis(row, at, axis.value_or(-1)), Tensor(at));
  });
  static PyTypeObject* const cls = class_named("topk");
  return found(given, cls, values, places, given.entry.label);
}

template <Tensor (*find)(const Tensor&, std::optional<Index>, bool)>
PyObject* place_of(const Given&, const Tensor& x, const OptionalAxes& axes, bool kept) {
  if (axes && axes->size() != 1) return nullptr;
  const auto axis = axes ? std::optional(axes->front()) : std::nullopt;
  return result(without_gil(x.numel(), [&] { return find(x, axis, kept); }));
}

// Of all, or along one axis.
PyObject* multiplied(const Given& given, const Typed& own, const OptionalAxes& axes, bool kept) {
  if (given.count > 1 && PyTuple_Check(given.values[1]) != 0) return nullptr;
  return reduced<ops::product, Of::any>(given, own, axes, kept);
}

// By one number.
PyObject* repeated(const Given& given, const Tensor& x, std::optional<Index> times, std::optional<Index> axis) {
  if (!times || !axis || *times < 0) return nullptr;
  return view_of(given.values[0], without_gil(x.numel() * *times, [&] { return ops::repeat(x, *times, *axis); }),
                 given.entry.label);
}

// The correction by its name.
template <Tensor (*compute)(const Tensor&, const OptionalAxes&, bool, double)>
PyObject* spread(const Given& given, const Floats& x, const OptionalAxes& axes, std::optional<bool> unbiased, bool kept,
                 std::optional<Index> correction) {
  if (given.count > 4 || x.rank() == 0) return nullptr;
  const auto ddof = static_cast<double>(correction.value_or(unbiased.value_or(true) ? 1 : 0));
  return result(without_gil(x.numel(), [&] { return compute(x, axes, kept, ddof); }), given.entry.label);
}

// In the dtype that all fit; empty Tensors with one axis do not count where others are joined.
template <bool new_axis> PyObject* joined(const Given& given, py::handle tensors, std::optional<Index> dim) {
  const auto listed = py::reinterpret_steal<py::object>(PySequence_Fast(tensors.ptr(), ""));
  PyErr_Clear();
  std::vector<Operand> parts;
  for (Py_ssize_t i = 0; listed && i < PySequence_Fast_GET_SIZE(listed.ptr()); ++i)
    if (Typed part; take(PySequence_Fast_GET_ITEM(listed.ptr(), i), 0, part)) parts.push_back(std::move(part));
  if (!listed || std::ssize(parts) < PySequence_Fast_GET_SIZE(listed.ptr()))
    fail_type(new_axis ? "stack" : "cat", ": tensors must be Tensors; got ", described(tensors));
  const auto empty = [](const Operand& part) { return part.tensor.shape() == Shape{0}; };
  if (!new_axis && !std::ranges::all_of(parts, empty)) std::erase_if(parts, empty);
  const Kind* kind = parts.empty() ? &default_kind() : parts.front().kind;
  for (const Operand& part : parts) kind = &common(*kind, *part.kind);
  Tensors all;
  Index work = 0;
  for (const Operand& part : parts) work += all.emplace_back(part.in(*kind)).numel();
  const Index axis = dim.value_or(0);
  return result(without_gil(work, [&] { return new_axis ? ops::stack(all, axis) : ops::concatenate(all, axis); }),
                given.entry.label, *kind);
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

// What of (t, dim, index) is asked for; a Tensor without axes counts as one of size 1.
struct Places {
  Tensor x;
  const Kind* kind;
  Array given, index;  // as it came, and into x
  Index axis;
  bool scalar;
};

std::optional<Places> read_places(const char* name, const Typed& own, py::handle dim, const Operand& numbers,
                                  bool entries) {
  Index axis = 0;
  if (!read(dim.ptr(), axis)) return {};
  const Tensor& t = own.tensor;
  axis = axis_from_front(name, axis, t.rank());
  if (!numbers.tensor.defined()) fail_type(name, ": index must be a Tensor; got ", described(numbers.value));
  if (numbers.kind->height != 1 && numbers.tensor.numel() > 0)
    fail_runtime(name, ": index must hold whole numbers; got dtype ", numbers.kind->text());
  const Array index = packed(numbers.in(kind_of(DType::int64)).data());
  const Tensor x = t.rank() > 0 ? t : ops::reshape(t, {1});
  if (entries && index.rank() > 1)
    throw py::index_error(text(name, ": index must have one axis; got shape ", index.shape()));
  return Places{
      x,
      own.kind,
      index,
      entries ? ops::entries_along(index, x.shape(), axis) : t.rank() > 0 ? index : index.reshaped({index.numel()}),
      axis,
      t.rank() == 0};
}

template <bool entries> PyObject* picked(const Given& given, const Typed& own, py::handle dim, const Operand& index) {
  const Entry& entry = given.entry;
  const auto places = read_places(entry.names, own, dim, index, entries);
  if (!places) return nullptr;
  Tensor y = without_gil(places->index.numel(),
                         [&] { return ops::gather({entry.names, "index"}, places->x, places->index, places->axis); });
  if (places->scalar) y = ops::reshape(y, entries ? Shape{} : places->given.shape());
  return result(y, entry.label, *places->kind);
}

// Values for the places: a Tensor of the dtype, of which as much counts as the index has, or a number where the entry
// has a label for one.
template <bool entries, bool add>
PyObject* put(const Given& given, const Typed& own, py::handle dim, const Operand& index, const Operand& operand) {
  const Entry& entry = given.entry;
  const char *name = entry.names, *word = entries ? "source" : "src";
  const auto places = read_places(name, own, dim, index, entries);
  if (!places) return nullptr;
  const bool number = entry.other_label != nullptr && !operand.tensor.defined();
  if (!number && !is_tensor(operand.value))
    fail_type(name, ": the values must be a Tensor; got ", described(operand.value));
  if (!number && operand.kind != places->kind)
    fail_runtime(name, ": the values must have the Tensor's dtype ", places->kind->text(), "; got ",
                 operand.kind->text());
  Tensor values = operand.in(*places->kind);
  const Shape& wanted = places->given.shape();
  if (!entries && !number && values.shape() != wanted) {
    if (values.rank() != wanted.rank())
      fail_runtime(name, ": src must have as many axes as index ", wanted, "; got ", values.shape());
    for (Index axis = 0; axis < wanted.rank(); ++axis)
      values = ops::slice(values, axis, 0, std::min(wanted.dim(axis), values.dim(axis)));
  }
  Tensor y = without_gil(places->x.numel(), [&] {
    return ops::scatter({name, "index", false, word}, places->x, places->index, values, places->axis, add);
  });
  if (places->scalar) y = ops::reshape(y, {});
  return result(y, number ? entry.other_label : entry.label, *places->kind);
}

}  // namespace

std::span<const Entry> axis_entries() {
  constexpr const char *over = "dim|axis, keepdim|keepdims", *along = "dim|axis",
                       *spreading = "dim|axis, unbiased, keepdim|keepdims, correction",
                       *ordering = "dim|axis, descending, stable";
  static constexpr Entry all[] = {
      {"sum", over, call<reduced<ops::sum, Of::any>>, "SumBackward0", "SumBackward1"},
      {"mean", over, call<reduced<ops::mean>>, "MeanBackward0", "MeanBackward1"},
      {"prod", over, call<multiplied>, "ProdBackward0", "ProdBackward1"},
      {"amax", over, call<reduced<ops::max, Of::any_in_own>>, "AmaxBackward0", "AmaxBackward0"},
      {"amin", over, call<reduced<ops::min, Of::any_in_own>>, "AminBackward0", "AminBackward0"},
      {"logsumexp", over, call<log_sum>, "LogsumexpBackward0", "LogsumexpBackward0"},
      {"embedding", call<looked_up>, "EmbeddingBackward0"},
      {"any", over, call<reduced<ops::any, Of::any>>},
      {"all", over, call<reduced<ops::all, Of::any>>},
      {"max", over, call<extreme<true>>, "MaxBackward1", "MaxBackward0"},
      {"min", over, call<extreme<false>>, "MinBackward1", "MinBackward0"},
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
      {"gather", call<picked<false>>, "GatherBackward0"},
      {"index_select", call<picked<true>>, "IndexSelectBackward0"},
      {"scatter", call<put<false, false>>, "ScatterBackward0", "ScatterBackward1"},
      {"scatter_add", call<put<false, true>>, "ScatterAddBackward0"},
      {"index_copy", call<put<true, false>>, "IndexCopyBackward0"},
      {"index_add", call<put<true, true>>, "IndexAddBackward0"},
  };
  return all;
}

}  // namespace qkv::bindings::direct
