// What the core answers itself of the class derived from Tensor along axes: reductions, orders, running sums, softmax,
// and joining.
#include <array>

#include "bindings/convert.h"
#include "bindings/direct_call.h"
#include "ops/ops.h"

namespace qkv::bindings::direct {
namespace {

// The axes, none or all of them being none at all.
bool read_axes(PyObject* value, Index rank, std::optional<ops::Axes>& axes) {
  if (value == nullptr || value == Py_None) return true;
  const bool several = PyTuple_Check(value) != 0;
  ops::Axes found;
  for (Py_ssize_t i = 0; i < (several ? PyTuple_GET_SIZE(value) : 1); ++i) {
    Index axis = 0;
    if (!read_axis(several ? PyTuple_GET_ITEM(value, i) : value, rank, axis)) return false;
    found.push_back(axis);
  }
  if (!found.empty()) axes = found;
  return true;
}

bool read_flag(PyObject* value, bool& flag) {
  if (value == nullptr) return true;
  flag = value == Py_True;
  return PyBool_Check(value) != 0;
}

constexpr Parameter of_axis{"dim", "axis"}, of_keeping{"keepdim", "keepdims"};

// (t, dim=None, keepdim=False).
struct Over {
  Tensor x;
  std::optional<ops::Axes> axes;
  bool kept = false;
};
std::optional<Over> read_over(const Given& given) {
  Over over{given.count > 0 ? tensor_of(given.values[0]) : Tensor(), {}, false};
  static constexpr Parameter parameters[] = {of_axis, of_keeping};
  std::array<PyObject*, 2> values{};
  if (!over.x.defined() || over.x.rank() == 0 || !read_parameters(given, parameters, values) ||
      !read_flag(values[1], over.kept) || !read_axes(values[0], over.x.rank(), over.axes))
    return std::nullopt;
  return over;
}

using Reduction = Tensor (*)(const Tensor&, const std::optional<ops::Axes>&, bool);
template <Reduction reduction> PyObject* reduced(const Given& given, const char* of_all, const char* of_axes) {
  const auto over = read_over(given);
  if (!over || (of_all != nullptr && !is_floating(over->x.dtype()))) return nullptr;
  return result(without_gil(over->x.numel(), [&] { return reduction(over->x, over->axes, over->kept); }),
                over->axes || over->kept ? of_axes : of_all);
}

// Along one axis; without one, or beside another Tensor, it means something else.
PyObject* extreme(const Given& given, bool largest) {
  PyTypeObject* cls = largest ? classes().max : classes().min;
  const auto over = read_over(given);
  if (cls == nullptr || !over || !is_floating(over->x.dtype()) || !over->axes || over->axes->size() != 1)
    return nullptr;
  const auto [values, places] =
      without_gil(over->x.numel(), [&] { return ops::extreme(over->x, over->axes->front(), over->kept, largest); });
  auto pair = py::reinterpret_steal<py::object>(cls->tp_alloc(cls, 2));
  if (!pair) throw py::error_already_set();
  PyTuple_SET_ITEM(pair.ptr(), 0, result(values, largest ? "MaxBackward0" : "MinBackward0"));
  PyTuple_SET_ITEM(pair.ptr(), 1, result(places));
  return pair.release().ptr();
}

PyObject* place_of(const Given& given, Tensor (*find)(const Tensor&, std::optional<Index>, bool)) {
  const auto over = read_over(given);
  if (!over || (over->axes && over->axes->size() != 1)) return nullptr;
  const auto axis = over->axes ? std::optional(over->axes->front()) : std::nullopt;
  return result(without_gil(over->x.numel(), [&] { return find(over->x, axis, over->kept); }));
}

// (t, dim=None, unbiased=None, keepdim=False, correction=None), the last one by its name.
PyObject* spread(const Given& given, Tensor (*compute)(const Tensor&, const std::optional<ops::Axes>&, bool, double),
                 const char* label) {
  const Tensor x = given.count > 0 && given.count < 5 ? floating_of(given.values[0]) : Tensor();
  static constexpr Parameter parameters[] = {of_axis, {"unbiased"}, of_keeping, {"correction"}};
  std::array<PyObject*, 4> values{};
  std::optional<ops::Axes> axes;
  bool unbiased = true, kept = false;
  Index correction = 0;
  if (!x.defined() || x.rank() == 0 || !read_parameters(given, parameters, values) ||
      !read_axes(values[0], x.rank(), axes) || !read_flag(values[1], unbiased) || !read_flag(values[2], kept) ||
      (values[3] != nullptr && !read(values[3], correction)))
    return nullptr;
  if (values[3] == nullptr) correction = unbiased ? 1 : 0;
  return result(without_gil(x.numel(), [&] { return compute(x, axes, kept, static_cast<double>(correction)); }), label);
}

// (t, dim).
template <typename F> PyObject* along(const Given& given, const F& compute, const char* label) {
  const Tensor x = given.count > 0 ? floating_of(given.values[0]) : Tensor();
  static constexpr Parameter parameters[] = {of_axis};
  std::array<PyObject*, 1> values{};
  Index axis = 0;
  if (!x.defined() || !read_parameters(given, parameters, values) || values[0] == nullptr ||
      !read_axis(values[0], x.rank(), axis))
    return nullptr;
  return result(without_gil(x.numel(), [&] { return compute(x, axis); }), label);
}

// (tensors, dim=0), of Tensors of one floating dtype.
PyObject* joined(const Given& given, bool new_axis) {
  static constexpr Parameter parameters[] = {of_axis};
  std::array<PyObject*, 1> values{};
  if (given.count == 0 || !read_parameters(given, parameters, values)) return nullptr;
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
                new_axis ? "StackBackward0" : "CatBackward0");
}

}  // namespace

std::span<const Entry> axis_entries() {
  static constexpr Entry all[] = {
      {"sum", [](const Given& given) { return reduced<ops::sum>(given, "SumBackward0", "SumBackward1"); }},
      {"mean", [](const Given& given) { return reduced<ops::mean>(given, "MeanBackward0", "MeanBackward1"); }},
      {"any", [](const Given& given) { return reduced<ops::any>(given, nullptr, nullptr); }},
      {"all", [](const Given& given) { return reduced<ops::all>(given, nullptr, nullptr); }},
      {"max", [](const Given& given) { return extreme(given, true); }},
      {"min", [](const Given& given) { return extreme(given, false); }},
      {"argmax", [](const Given& given) { return place_of(given, ops::argmax); }},
      {"argmin", [](const Given& given) { return place_of(given, ops::argmin); }},
      {"var", [](const Given& given) { return spread(given, ops::variance, "VarBackward0"); }},
      {"std", [](const Given& given) { return spread(given, ops::stddev, "StdBackward0"); }},
      {"cumsum",
       [](const Given& given) {
         return along(
             given, [](const Tensor& x, Index axis) { return ops::cumulative_sum(x, axis); }, "CumsumBackward0");
       }},
      {"cumprod", [](const Given& given) { return along(given, ops::cumulative_product, "CumprodBackward0"); }},
      {"softmax",
       [](const Given& given) {
         return along(
             given, [](const Tensor& x, Index axis) { return ops::softmax(x, axis, 1.0); }, "SoftmaxBackward0");
       }},
      {"log_softmax",
       [](const Given& given) {
         return along(
             given, [](const Tensor& x, Index axis) { return ops::log_softmax(x, axis, 1.0); }, "LogSoftmaxBackward0");
       }},
      {"cat", [](const Given& given) { return joined(given, false); }},
      {"concat", [](const Given& given) { return joined(given, false); }},
      {"concatenate", [](const Given& given) { return joined(given, false); }},
      {"stack", [](const Given& given) { return joined(given, true); }},
  };
  return all;
}

}  // namespace qkv::bindings::direct
