// Shapes and axes from Python's numbers and tuples.
#include "bindings/values/convert.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

constexpr std::size_t kMostAxes = 64;  // NumPy's limit

Shape sizes_from(py::handle size, const char* operation, const char* name, bool nested) {
  Shape sizes;
  const auto one = [&](py::handle item) {
    if (PyIndex_Check(item.ptr()) == 0 || PyBool_Check(item.ptr()) != 0)
      fail_type(operation, ": ", name, " must be whole numbers; got ", described(size));
    const auto number = whole_number(item);
    if (!number) fail_value(operation, ": ", name, " must be numbers of at most 63 bits; got ", described(size));
    sizes.push_back(*number);
  };
  const bool has_axes = py::isinstance<py::array>(size) && py::reinterpret_borrow<py::array>(size).ndim() > 0;
  if (PyIndex_Check(size.ptr()) != 0 && !has_axes) {
    one(size);
  } else {
    if (!py::isinstance<py::sequence>(size) || py::isinstance<py::str>(size) || is_tensor(size))
      fail_type(operation, ": ", name, " must be a number or a tuple of numbers; got ", type_name(size));
    const auto sequence = py::reinterpret_borrow<py::sequence>(size);
    if (!nested && sequence.size() == 1 && py::isinstance<py::sequence>(sequence[0]))
      return sizes_from(sequence[0], operation, name, true);
    if (sequence.size() > kMostAxes)
      fail_value(operation, ": ", name, " must hold at most ", kMostAxes,
                 " numbers because an array has no more axes; got ", sequence.size());
    for (const py::object item : sequence) one(item);  // owned: an array makes its items when asked
  }
  return sizes;
}

}  // namespace

std::optional<Index> whole_number(py::handle value) {
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  const Index number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  return overflow == 0 ? std::optional(number) : std::nullopt;
}

Shape shape_from(py::handle size, const char* operation, const char* name) {
  return sizes_from(size, operation, name, false);
}

std::optional<IndexList> axes_from(py::handle axis, const char* operation) {
  if (axis.is_none()) return {};
  return shape_from(axis, operation, "axis");
}

std::optional<Index> one_axis_from(py::handle axis, const char* operation) {
  if (axis.is_none()) return {};
  const Shape axes = shape_from(axis, operation, "axis");
  if (axes.rank() != 1) fail_type(operation, ": axis must be one number or None; got ", described(axis));
  return axes[0];
}

}  // namespace qkv::bindings
