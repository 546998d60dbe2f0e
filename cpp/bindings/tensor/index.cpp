// Indices of Python's class Tensor, and changes in place: t[index] = value, copy_, +=. What these mean is
// autograd/in_place.h's.
#include <algorithm>

#include "autograd/in_place.h"
#include "autograd/views.h"
#include "bindings/call/interpreter.h"
#include "bindings/tensor/tensor_class.h"
#include "nn/parameter.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

bool is_advanced(py::handle item) {
  return py::isinstance<py::list>(item) || py::isinstance<py::array>(item) || is_tensor(item) ||
         PyBool_Check(item.ptr()) != 0 ||
         (!py::isinstance<py::tuple>(item) && PyIndex_Check(item.ptr()) == 0 && !item.is_none() &&
          !PySlice_Check(item.ptr()) && item.ptr() != Py_Ellipsis);
}

// What an index of whole numbers, slices, None and one ellipsis selects of an array with these strides. Nothing for
// other indices and for numbers out of range, which NumPy works out or refuses.
std::optional<Region> plain_region(const Shape& shape, const Strides& own, py::handle index) {
  PyObject* const one = index.ptr();
  const bool several = PyTuple_CheckExact(one) != 0;
  const Index count = several ? PyTuple_GET_SIZE(one) : 1;
  PyObject* const* items = several ? PySequence_Fast_ITEMS(one) : &one;
  const Index ellipses = std::count(items, items + count, Py_Ellipsis);
  const Index left = shape.rank() - (count - ellipses - std::count(items, items + count, Py_None));
  if (left < 0 || ellipses > 1) return {};
  Region region;
  Index axis = 0;
  const auto keep = [&](Index axes) {
    for (; axes > 0; --axes, ++axis) {
      region.shape.push_back(shape.dim(axis));
      region.strides.push_back(own[static_cast<std::size_t>(axis)]);
    }
  };
  for (Index i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (item == Py_None) {
      region.shape.push_back(1);
      region.strides.push_back(0);
      continue;
    }
    if (item == Py_Ellipsis) {
      keep(left);
      continue;
    }
    const Index stride = own[static_cast<std::size_t>(axis)], size = shape.dim(axis);
    ++axis;
    if (PyLong_CheckExact(item) != 0) {
      int overflow = 0;
      const long long at = PyLong_AsLongLongAndOverflow(item, &overflow);
      if (overflow != 0 || at < -size || at >= size) return {};
      region.offset += (at < 0 ? at + size : at) * stride;
    } else if (PySlice_Check(item) != 0) {
      Py_ssize_t begin, end, by;
      if (PySlice_Unpack(item, &begin, &end, &by) != 0) throw py::error_already_set();
      const Py_ssize_t length = PySlice_AdjustIndices(size, &begin, &end, by);
      region.offset += length == 0 ? 0 : begin * stride;
      region.shape.push_back(length);
      region.strides.push_back(length > 1 ? by * stride : stride);
    } else {
      return {};
    }
  }
  if (ellipses == 0) keep(left);
  return region;
}

// The same as NumPy works it out, on an array of that shape and with these strides that nobody reads.
Region numpy_region(const Tensor& t, const Strides& own, const py::tuple& items) {
  const Index size = item_size(t.dtype());
  std::vector<py::ssize_t> strides;
  for (const Index step : own) strides.push_back(step * size);
  const py::array whole(py::reinterpret_steal<py::dtype>(numpy_dtype(t.dtype()).release()),
                        std::vector<py::ssize_t>(t.shape().begin(), t.shape().end()), std::move(strides),
                        t.data().first(), py::capsule(&t, [](void*) {}));
  const py::array part = whole[items].cast<py::array>();
  Region region{Shape(part.shape(), part.shape() + part.ndim()), {}};
  for (py::ssize_t axis = 0; axis < part.ndim(); ++axis) region.strides.push_back(part.strides(axis) / size);
  if (part.size() > 0)
    region.offset = (static_cast<const char*>(part.data()) - static_cast<const char*>(whole.data())) / size;
  return region;
}

// Whether all items are whole numbers, or one a mask of rows.
bool select_rows(const py::tuple& items) {
  return std::all_of(items.begin(), items.end(), [&](py::handle item) {
    const py::array given = numpy().attr("asarray")(item).cast<py::array>();
    const char kind = given.dtype().kind();
    return kind == 'i' || kind == 'u' || (kind == 'b' && given.ndim() == 1 && items.size() == 1);
  });
}

}  // namespace

Selection selection_from(const py::object& index) {
  Selection result;
  const py::tuple items = py::isinstance<py::tuple>(index) ? index.cast<py::tuple>() : py::make_tuple(index);
  py::list plain;
  for (const py::handle item : items) {
    result.advanced = result.advanced || is_advanced(item);
    if (py::isinstance<py::array>(item)) as_numpy(item, "Tensor", "index");  // refuses masked arrays
    result.ellipsis = result.ellipsis || item.ptr() == Py_Ellipsis;
    py::object own = is_tensor(item) ? py::object(to_numpy(item.cast<Tensor>().data(), false))
                                     : py::reinterpret_borrow<py::object>(item);
    // NumPy reads an array of indices twice, to check and to use it, while other threads may write to it.
    plain.append(is_advanced(item) && py::hasattr(own, "__array__") ? py::object(numpy().attr("array")(own)) : own);
  }
  result.items = py::tuple(plain);
  return result;
}

// What an index of whole numbers, slices, None and `...` selects, a view; nothing for other indices.
static std::optional<Tensor> part_of(const Tensor& t, const py::object& index) {
  if (plain_region(t.shape(), t.data().strides(), index))
    return view(t, [&](const Strides& strides) { return *plain_region(t.shape(), strides, index); });
  Selection selection = selection_from(index);
  if (selection.advanced) return {};
  // With an ellipsis the result is a view even for a single number.
  if (!selection.ellipsis) selection.items = selection.items + py::make_tuple(py::ellipsis());
  return view(t, [&](const Strides& strides) { return numpy_region(t, strides, selection.items); });
}

// Where the numbers are that an index selects of an array of this shape, in memory of these strides. NumPy works it
// out, of small packed arrays on the positions 0, 1, 2, ... of all numbers, or of each axis for itself where that is
// the same; so the rules and errors are NumPy's.
static Array places_of(const Shape& shape, const Strides& strides, const py::tuple& items) {
  constexpr Index kSmall = 4096;
  Call call("Tensor");
  const auto positions = [](Index n) { return numpy().attr("arange")(n); };
  if (strides == row_major(shape)) {
    if (shape.numel() <= kSmall)
      return call.integers(positions(shape.numel()).attr("reshape")(shape_tuple(shape))[items], "index");
    const bool small = std::all_of(shape.begin(), shape.end(), [](Index size) { return size <= kSmall; });
    if (small && static_cast<Index>(items.size()) == shape.rank() && select_rows(items)) try {
        py::object at = py::int_(0);
        for (std::size_t i = 0; i < items.size(); ++i) at = at * py::int_(shape[i]) + positions(shape[i])[items[i]];
        return call.integers(at, "index");
      } catch (const py::error_already_set&) {  // below with the number of the axis
      }
  }
  return call.integers(callback("places")(shape_tuple(shape), shape_tuple(strides), items), "index");
}

// The memory from the first to the last number of a strided array, as one axis; `lowest` is where it begins.
static Array memory_of(const Array& x, Index& lowest) {
  const Strides strides = x.strides();
  Index highest = lowest = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis)
    (strides[axis] < 0 ? lowest : highest) += (x.shape()[axis] - 1) * strides[axis];
  return x.view({{highest - lowest + 1}, {1}, lowest});
}

Tensor get_item(const Tensor& given, const py::object& index) {
  if (auto part = part_of(given, index)) return *part;
  const py::tuple items = selection_from(index).items;
  if (!given.data().is_packed() && !wants_gradient({given})) {
    Index lowest = 0;
    const Tensor memory(memory_of(given.data(), lowest));
    const Array at = places_of(given.shape(), given.data().strides(), items);
    return without_gil(at.numel(), [&] { return ops::take_flat(memory, at, at.shape(), -lowest); });
  }
  const Tensor t = packed(given);
  const Index axes = static_cast<Index>(items.size());
  if (axes == 0 || axes >= t.rank() || t.numel() == 0 || !select_rows(items)) {
    const Array at = places_of(t.shape(), row_major(t.shape()), items);
    return without_gil(at.numel(), [&] { return ops::take_flat(t, at, at.shape()); });
  }
  const Shape first(t.shape().begin(), t.shape().begin() + axes);
  const Array at = places_of(first, row_major(first), items);
  const Index count = first.numel(), size = t.shape().product(axes, t.rank());
  return without_gil(at.numel() * size, [&] {
    Shape shape = at.shape();
    for (Index axis = axes; axis < t.rank(); ++axis) shape.push_back(t.dim(axis));
    if (!is_floating(t.dtype())) return Tensor(ops::entries(t.data().reshaped({count, size}), 0, at).reshaped(shape));
    return ops::reshape(ops::embedding(ops::reshape(t, {count, size}), at, {}), shape);
  });
}

void set_in_place(const char* operation, const Tensor& t, const Tensor& result) {
  if (!result.requires_grad()) return without_gil(t.numel(), [&] { change(operation, t, result); });
  for (const TensorImpl* impl : {t.impl().get(), t.impl()->base.get()})
    if (dynamic_cast<const ParameterImpl*>(impl) != nullptr)
      fail_runtime(
          "Tensor: a Parameter must be changed under qkv.no_grad() because it can not be the result of an operation");
  const ExclusiveAccess alone;  // no computation reads what changes
  change(operation, t, result);
}

Tensor replacement(const Tensor& t, const Tensor& value) {
  const Tensor whole = ops::broadcast_to(value, t.shape());
  if (!wants_gradient({t, value})) return whole;
  return record(cloned(whole.data()), {t, whole}, [](const Tensor& dy, TensorGradients& dx) {
    dx.add(0, [&] { return Tensor(Array::zeros(dy.shape(), dy.dtype())); });
    dx.add(1, dy);
  });
}

namespace {

// What t would be after t[items] = value. Where several values go to the same place, the last one stays, and the others
// get no gradient.
Tensor replaced(const Tensor& t, const py::tuple& items, const Tensor& value) {
  const Array at = places_of(t.shape(), row_major(t.shape()), items);
  Shape least = value.shape();  // leading axes of size 1 may be too many, as in NumPy
  while (least.rank() > at.rank() && least.front() == 1) least.erase(least.begin());
  const Index count = at.numel();
  const Tensor values = ops::reshape(ops::broadcast_to(ops::reshape(value, least), at.shape()), {count});
  const Tensor all = ops::reshape(t, {t.numel()});
  return ops::reshape(ops::scatter({"Tensor", "index"}, all, at.reshaped({count}), values, 0, false), t.shape());
}

// Booleans < integers < floats: a change in place keeps the dtype, so it may not need a higher kind.
int kind(DType dtype) { return dtype == DType::boolean ? 0 : dtype == DType::int64 ? 1 : 2; }

// value in the Tensor's dtype, with its history.
Tensor value_for(const Tensor& t, py::handle value) {
  const auto given = operand("Tensor", t, value);
  if (!given) fail_type("Tensor: value must be a number or an array; got ", type_name(value));
  // Integers may mean booleans, as in NumPy; what would be cut off or rounded away may not be written.
  if (kind(given->dtype()) > std::max(kind(t.dtype()), 1))
    fail_type("Tensor: value must hold ", t.dtype(), " because the Tensor is changed in place; got ", given->dtype());
  return ops::cast(*given, t.dtype());
}

Tensor placed(const char* operation, const char* name, const Tensor& part, Tensor value) {
  while (value.rank() > part.rank() && value.dim(0) == 1)  // leading axes of size 1 may be too many, as in NumPy
    value = ops::reshape(value, Shape(value.shape().begin() + 1, value.shape().end()));
  Shape shape;
  if (!broadcast(value.shape(), part.shape(), shape) || shape != part.shape())
    fail_value(operation, ": ", name, " must broadcast to the Tensor's shape ", part.shape(), "; got ", name, " ",
               value.shape());
  return replacement(part, value);
}

// Writes into the memory that all holders of this Tensor see.
void copy_into(const Tensor& t, py::handle values) {
  Call call("copy_");
  const Tensor source = call.any(values, "values");
  const GradMode mode(grad_enabled() && !(t.is_leaf() && t.requires_grad()));  // a parameter is given other numbers
  check_changeable("copy_", t);
  set_in_place("copy_", t, without_gil(t.numel(), [&] {
                 return placed("copy_", "values", before_change(t, t), ops::cast(before_change(t, source), t.dtype()));
               }));
}

}  // namespace

py::object updated(const char* operation, const py::object& self, const std::optional<Tensor>& o,
                   Tensor (*computed)(const Tensor&, const Tensor&)) {
  const Tensor t = self.cast<Tensor>();
  if (!o) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  check_changeable(operation, t);
  const Tensor result = without_gil(work_of(t, *o), [&] {
    const Tensor y = computed(before_change(t, t), before_change(t, *o));
    if (y.shape() != t.shape())
      fail_value(operation, ": other must broadcast to the Tensor's shape ", t.shape(),
                 " because it is changed in place; got other ", o->shape());
    if (kind(y.dtype()) > kind(t.dtype()))
      fail_type(operation, ": the result must be ", t.dtype(), " because the Tensor is changed in place; got ",
                y.dtype());
    return ops::cast(y, t.dtype());
  });
  set_in_place(operation, t, result);
  return self;
}

void set_item(const Tensor& t, const py::object& index, py::handle given) {
  check_changeable("Tensor", t);
  const Tensor value = value_for(t, given);
  // A view of a view would be a third Tensor that looks at memory which the graph may have saved.
  const bool is_saved = t.impl()->base != nullptr && t.data().buffer()->savers() > 0 && wants_gradient({t, value});
  if (const auto part = is_saved ? std::nullopt : part_of(t, index)) {
    set_in_place("Tensor", *part, placed("Tensor", "value", before_change(*part, *part), before_change(t, value)));
    return;
  }
  const py::tuple items = selection_from(index).items;
  if (wants_gradient({t, value})) {
    set_in_place("Tensor", t, replaced(before_change(t, t), items, before_change(t, value)));
    return;
  }
  check_not_overlapping("Tensor", t);
  py::object view = to_numpy(t.data(), true, false);
  view[items] = to_numpy(value.data(), false);
  t.data().buffer()->raise_version();
}

void def_indexing(TensorClass& tensor) {
  tensor.def("__getitem__", get_item)
      .def("__setitem__", set_item)
      .def("copy_(values)", "Overwrite the numbers in place; raises the version.",
           [](const py::object& self, py::handle values) {
             copy_into(self.cast<Tensor>(), values);
             return self;
           })
      .def("__len__",
           [](const TensorImpl& t) {
             if (t.array.rank() == 0) fail_type("len: the Tensor must have an axis; got a Tensor ()");
             return t.array.dim(0);
           })
      .def("__iter__", [](const Tensor& t) {
        if (t.rank() == 0) fail_type("iter: the Tensor must have an axis; got a Tensor ()");
        py::list rows;
        for (Index i = 0; i < t.dim(0); ++i) rows.append(get_item(t, py::int_(i)));
        return py::iter(rows);
      });
}

}  // namespace qkv::bindings
