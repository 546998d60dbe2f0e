#include "bindings/values/convert.h"
#include "bindings/call/interpreter.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "autograd/in_place.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

constexpr int kContiguous = 0x1, kAligned = 0x100;

// Whose numbers are stored as those of NumPy's dtype; nothing where it is none of ours.
std::optional<DType> own_dtype(const py::dtype& dtype) {
  const char order = dtype.byteorder(), kind = dtype.kind();
  const auto bytes = dtype.itemsize();
  if (order == '>' || order == '!') return {};
  if (kind == 'b') return DType::boolean;
  if (kind == 'i' && bytes == 8) return DType::int64;
  if (kind == 'f' && bytes == 4) return DType::float32;
  return kind == 'f' && bytes == 8 ? std::optional(DType::float64) : std::nullopt;
}

Shape shape_of(const py::array& array) { return Shape(array.shape(), array.shape() + array.ndim()); }

bool is_half(const py::dtype& dtype) {
  return dtype.itemsize() == 2 && (dtype.kind() == 'f' || std::string(py::str(dtype)) == "bfloat16");
}

// An Array of one of our dtypes over NumPy's memory, copied only where NumPy's layout or dtype is not ours.
Array adopt(py::array array, DType dtype) {
  const auto own = own_dtype(array.dtype());
  // NumPy would warn of numbers that are infinite in float32, in the name of its own function.
  if (own == DType::float64 && dtype == DType::float32)
    return adopt(std::move(array), DType::float64).cast(DType::float32);
  if (own != dtype || (array.flags() & kContiguous) == 0 || (array.flags() & kAligned) == 0)
    array =
        numpy().attr("array")(array, py::arg("dtype") = numpy_dtype(dtype), py::arg("order") = "C").cast<py::array>();
  const Shape shape = shape_of(array);
  auto buffer =
      Buffer::borrow(const_cast<void*>(array.data()), static_cast<std::size_t>(array.nbytes()), keep_alive(array));
  return Array(shape, dtype, std::move(buffer));
}

void check_records(py::handle value, const char* operation, const char* name) {
  if (py::bool_(py::getattr(value, "requires_grad", py::bool_(false))))
    fail_type(operation, ": ", name, " must not be a ", type_name(value),
              " of another library that requires a gradient because the gradient would be lost; pass ", name,
              ".detach()");
}

// The numbers of another library's tensor where it lies, if its dtype is one of ours; NumPy reads all others.
std::optional<Array> of_library(py::handle value, const char* operation, const char* name) {
  PyObject* p = value.ptr();
  if (py::isinstance<py::array>(value) || PyList_Check(p) || PyTuple_Check(p) || PyFloat_Check(p) || PyLong_Check(p))
    return {};  // a type is asked for its table in 300 ns where it has none
  auto numbers = exchanged(value, Buffer::borrow);
  if (numbers) check_records(value, operation, name);
  return numbers;
}

// A tensor of PyTorch's as NumPy reads it: bfloat16, which NumPy has not, as float32. One that requires a gradient is
// an error. Anything else stays as it is.
py::object readable(py::handle value, const char* operation, const char* name) {
  check_records(value, operation, name);
  if (py::hasattr(value, "bfloat16") &&
      std::string(py::str(py::getattr(value, "dtype", py::none()))) == "torch.bfloat16")
    return value.attr("float")();
  return py::reinterpret_borrow<py::object>(value);
}

// What NumPy's conversion would leave out without a word: the mask of a masked array, and the history of Tensors in a
// list.
void check_whole(py::handle value, const char* operation, const char* name, int depth = 0) {
  static const py::handle ndarray = py::object(numpy().attr("ndarray")).release();
  constexpr int kDeepest = 64;  // NumPy's limit; it refuses what is nested deeper, or holds itself
  PyObject* p = value.ptr();
  if (PyFloat_Check(p) != 0 || PyLong_Check(p) != 0) return;
  if (PyList_Check(p) != 0 || PyTuple_Check(p) != 0) {
    for (Py_ssize_t i = 0; depth < kDeepest && i < PySequence_Fast_GET_SIZE(p); ++i)
      check_whole(PySequence_Fast_GET_ITEM(p, i), operation, name, depth + 1);
  } else if (is_tensor(value)) {
    if (wants_gradient({value.cast<Tensor>()}))
      fail_type(operation, ": ", name,
                " must not be a list of Tensors that record because their gradients would be lost; join them by "
                "qkv.stack or qkv.concatenate, or detach() them");
  } else if (py::isinstance<py::array>(value) && !py::type::handle_of(value).is(ndarray)) {
    const py::module_ masked = py::module_::import("numpy.ma");
    if (masked.attr("is_masked")(value).cast<bool>())
      fail_type(operation, ": ", name,
                " must not be a NumPy masked array because its mask would be lost; pass attn_mask or "
                ".filled(value)");
  } else if (depth > 0 && !py::isinstance<py::array>(value)) {
    readable(value, operation, name);
  }
}

}  // namespace

py::module_ numpy() {
  static auto* module = new py::module_(py::module_::import("numpy"));  // never let go: Python may be gone by then
  return *module;
}

void own_numbers(const Tensor& t) {
  if (t.layout().buffer()->borrowed() && t.is_leaf()) t.impl()->set(cloned(t.data()));
  if (t.impl().use_count() == 1) forget_hidden_base(t);
}

bool is_tensor(py::handle value) { return PyObject_TypeCheck(value.ptr(), class_of<TensorImpl>) != 0; }

Tensor tensor_or_undefined(py::handle object) {
  if (Py_TYPE(object.ptr()) == class_of<TensorImpl>)
    if (const auto* held = held_tensor(object.ptr())) return Tensor(*held);
  return is_tensor(object) ? Tensor(object.cast<std::shared_ptr<TensorImpl>>()) : Tensor();
}

py::object object_of(const Tensor& tensor) {
  if (!tensor.defined()) return py::none();
  own_numbers(tensor);  // a layer may hand its input through
  return py::cast(tensor.impl());
}

std::optional<bool> flag_or_none(py::handle value) {
  if (const Tensor t = tensor_or_undefined(value); t.defined() && t.requires_grad()) return {};
  try {
    return value.cast<bool>();
  } catch (const py::cast_error&) {
    return {};
  }
}

bool is_whole(PyObject* value) {
  if (PyLong_CheckExact(value) != 0) return true;
  if (is_tensor(value)) return !is_floating(py::handle(value).cast<Tensor>().dtype());
  PyObject* number = PyNumber_Index(value);
  if (number == nullptr) PyErr_Clear();
  Py_XDECREF(number);
  return number != nullptr;
}

py::array as_numpy(py::handle value, const char* operation, const char* name) {
  if (py::isinstance<py::array>(value)) {
    check_whole(value, operation, name);
    return py::reinterpret_borrow<py::array>(value);
  }
  if (is_tensor(value)) return to_numpy(value.cast<Tensor>().data(), false);
  if (PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0) check_whole(value, operation, name);
  const py::object given = readable(value, operation, name);
  const bool speaks_array = py::hasattr(given, "__array__") || PyObject_CheckBuffer(given.ptr()) != 0;
  try {
    if (!speaks_array && py::hasattr(given, "__dlpack__")) return numpy().attr("from_dlpack")(given).cast<py::array>();
    return numpy().attr("asarray")(given).cast<py::array>();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    const std::string reason = py::str(error.value());
    const bool ragged = reason.find("inhomogeneous") != std::string::npos;
    fail_type(operation, ": ", name, " must be an array or nested lists of equal lengths; got ", type_name(value),
              ragged ? " of lists of different lengths; qkv.data.pad fills the shorter ones up" : " (" + reason + ")");
  }
}

py::object numpy_dtype(DType dtype) {
  return visit_any(dtype, []<class T>(T) { return py::dtype::of<T>(); });
}

DType dtype_from(py::handle value, const char* operation) {
  py::object wanted;
  try {
    wanted = numpy().attr("dtype")(value);
  } catch (py::error_already_set&) {
    throw TypeError(callback("no_dtype")(operation, value).cast<std::string>());
  }
  const auto dtype = own_dtype(wanted.cast<py::dtype>());
  if (!dtype)
    fail_type(operation, ": dtype must be float32, float64, int64 or bool; got ", std::string(py::str(wanted)));
  return *dtype;
}

bool is_bfloat16(py::handle dtype) {
  const py::object name = py::getattr(dtype, "__name__", dtype);  // a type of ml_dtypes, or a dtype, or its name
  return std::string(py::str(name)) == "bfloat16";
}

py::tuple shape_tuple(const IndexList& sizes) {
  py::tuple result(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) result[i] = py::int_(sizes[i]);
  return result;
}

py::array to_numpy(const Array& array, bool writeable, bool watched) {
  const py::capsule base =
      watched ? py::capsule(new WritableView(array.buffer()), [](void* p) { delete static_cast<WritableView*>(p); })
              : py::capsule(new std::shared_ptr<Buffer>(array.buffer()),
                            [](void* p) { delete static_cast<std::shared_ptr<Buffer>*>(p); });
  std::vector<py::ssize_t> strides;
  if (!array.is_packed())
    for (const Index step : array.strides()) strides.push_back(step * item_size(array.dtype()));
  py::array view(py::reinterpret_steal<py::dtype>(numpy_dtype(array.dtype()).release()),
                 std::vector<py::ssize_t>(array.shape().begin(), array.shape().end()), std::move(strides),
                 array.first(), base);
  if (!writeable || overlaps_itself(array)) set_read_only(view);
  return view;
}

std::optional<Array> shared_with(const py::array& array, BufferOf* buffer) {
  const auto dtype = own_dtype(array.dtype());
  if (!dtype || (array.flags() & kAligned) == 0) return {};
  const Index size = item_size(*dtype);
  Strides strides;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    if (array.strides(axis) % size != 0) return {};
    strides.push_back(array.strides(axis) / size);
  }
  return array_over(const_cast<void*>(array.data()), {shape_of(array), strides}, *dtype, buffer, keep_alive(array));
}

// Unsigned numbers above the range of int64 would come out negative.
void check_unsigned(const py::array& array, const char* operation, const char* name) {
  if (array.dtype().kind() != 'u' || array.dtype().itemsize() < 8 || array.size() == 0) return;
  const py::object largest = array.attr("max")();
  if (largest.cast<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    fail_value(operation, ": ", name, " must hold integers below 2**63; got ", std::string(py::str(largest)));
}

Array copy_of(py::handle data, py::handle dtype, const char* operation) {
  if (is_tensor(data)) {
    const Array source = packed(data.cast<Tensor>().data());
    const Array cast = dtype.is_none() ? source : source.cast(dtype_from(dtype, operation));
    return cast.buffer() == source.buffer() ? cast.clone() : cast;
  }
  const py::array array = as_numpy(data, operation, "data");
  const char kind = array.dtype().kind();
  if (std::string_view("biuf").find(kind) == std::string_view::npos && !is_half(array.dtype()))
    fail_type(operation, ": data must hold ", dtype.is_none() ? "numbers" : "real numbers", "; got ", type_name(data),
              " of dtype ", std::string(py::str(array.dtype())));
  const auto has_dtype = [data] { return py::hasattr(data, "dtype"); };
  DType wanted = DType::float32;
  if (!dtype.is_none()) {
    wanted = dtype_from(dtype, operation);
  } else if (array.size() > 0 || has_dtype()) {
    if (kind == 'b') wanted = DType::boolean;
    else if (kind == 'i' || kind == 'u') wanted = DType::int64, check_unsigned(array, operation, "data");
    else if (array.dtype().itemsize() >= 8 && has_dtype()) wanted = DType::float64;
  }
  if (wanted == DType::int64 && kind == 'f') {
    const Array source = adopt(array, DType::float64);
    const double* x = source.data<double>();
    const auto outside = std::find_if(x, x + source.numel(), [](double v) { return !(v >= -0x1p63 && v < 0x1p63); });
    if (outside != x + source.numel()) fail_value(operation, ": data must fit int64; got ", *outside);
    return source.cast(DType::int64);
  }
  const Array numbers = adopt(array, wanted);
  return without_gil(numbers.numel(), [&] { return numbers.clone(); });
}

Tensor Call::convert(py::handle value, const char* name, bool floats, bool counts) {
  if (is_tensor(value)) {
    any_tensor_ = true;
    const Tensor tensor = value.cast<Tensor>();
    if (counts && is_floating(tensor.dtype())) any_full_width_ = true;
    if (!floats || is_floating(tensor.dtype())) return tensor;
    return Tensor(packed(tensor.data()).cast(DType::float32));
  }
  if (value.is_none()) fail_type(operation_, ": ", name, " must be an array; got None");
  // Python's own: NumPy's float64 is a float, too, and keeps its width.
  if (floats && (PyFloat_CheckExact(value.ptr()) != 0 || PyLong_CheckExact(value.ptr()) != 0))
    return Tensor(Array::full({}, DType::float32, value.cast<double>()));
  if (const auto numbers = of_library(value, operation_, name)) {
    const bool is_float = is_floating(numbers->dtype());
    if (counts && is_float) any_full_width_ = true;
    return Tensor(floats && !is_float ? packed(*numbers).cast(DType::float32) : *numbers);
  }
  const py::array array = as_numpy(value, operation_, name);
  const py::dtype dtype = array.dtype();
  const auto own = own_dtype(dtype);
  if (own && is_floating(*own)) {
    // Nested lists of numbers count as float32, arrays keep their width.
    const DType wanted = py::hasattr(value, "dtype") || py::isinstance<py::buffer>(value) ? *own : DType::float32;
    if (counts && py::hasattr(value, "dtype")) any_full_width_ = true;
    return Tensor(adopt(array, wanted));
  }
  if (is_half(dtype)) {
    if (counts) half_ = dtype;
    return Tensor(adopt(array, DType::float32));
  }
  const char kind = dtype.kind();
  if (kind == 'f') return Tensor(adopt(array, dtype.itemsize() == 4 ? DType::float32 : DType::float64));
  if (kind != 'i' && kind != 'u' && kind != 'b')
    fail_type(operation_, ": ", name, " must hold numbers; got dtype ", std::string(py::str(dtype)));
  if (floats) return Tensor(adopt(array, DType::float32));
  check_unsigned(array, operation_, name);
  return Tensor(adopt(array, kind == 'b' ? DType::boolean : DType::int64));
}

Array Call::exact(py::handle value, const char* name, DType dtype, const char* wanted) {
  const auto wrong = [&](const auto& found) {
    fail_type(operation_, ": ", name, " must ", wanted, "; got dtype ", found);
  };
  if (is_tensor(value)) {
    const Tensor tensor = value.cast<Tensor>();
    if (tensor.dtype() != dtype) wrong(tensor.dtype());
    return packed(tensor.data());
  }
  if (const auto numbers = of_library(value, operation_, name)) {
    if (numbers->dtype() != dtype && (dtype == DType::boolean || numbers->numel() > 0)) wrong(numbers->dtype());
    return packed(*numbers).cast(dtype);
  }
  if (dtype == DType::int64 && PyLong_CheckExact(value.ptr()) != 0)  // faster than NumPy makes an array of it
    if (const auto number = whole_number(value)) return Array::full({}, dtype, *number);
  const py::array array = as_numpy(value, operation_, name);
  const char kind = array.dtype().kind();
  const bool fits = dtype == DType::boolean ? kind == 'b' : kind == 'i' || kind == 'u' || array.size() == 0;
  if (!fits) wrong(std::string(py::str(array.dtype())));
  if (dtype == DType::int64) check_unsigned(array, operation_, name);
  return adopt(array, dtype);
}

Array Call::integers(py::handle value, const char* name) { return exact(value, name, DType::int64, "hold integers"); }

Array Call::booleans_or_none(py::handle value, const char* name) {
  return value.is_none() ? Array() : exact(value, name, DType::boolean, "be boolean");
}

py::object Call::result(const Tensor& y) const {
  if (any_tensor_) return py::cast(y);
  py::object array = to_numpy(y.data().buffer()->borrowed() ? cloned(y.data()) : packed(y.data()), true);
  if (half_ && !any_full_width_ && is_floating(y.dtype())) array = array.attr("astype")(half_);
  return array;
}

}  // namespace qkv::bindings
