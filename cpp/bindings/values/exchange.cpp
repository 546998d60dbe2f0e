#include "bindings/values/exchange.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/call/interpreter.h"
#include "bindings/values/convert.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

// DLPack's structures, of version 1.
struct DlVersion {
  std::uint32_t major, minor;
};
struct DlTensor {
  void* data;
  struct {
    std::int32_t type, id;
  } device;
  std::int32_t ndim;
  struct {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  } dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DlManaged {
  DlVersion version;
  void* context;
  void (*deleter)(DlManaged*);
  std::uint64_t flags;
  DlTensor tensor;
};
struct DlHeader {
  DlVersion version;
  const DlHeader* previous;
};
struct DlTable : DlHeader {
  int (*allocate)(DlTensor*, DlManaged**, void*, void (*)(void*, const char*, const char*));
  int (*to_managed)(void* object, DlManaged** out);
  int (*from_managed)(DlManaged* tensor, void** object);
  int (*look_at)(void* object, DlTensor* out);  // may be null
  int (*stream)(std::int32_t, std::int32_t, void**);
};
constexpr const char* kNotAligned = ", whose memory is not aligned";
constexpr std::uint32_t kMajor = 1;
constexpr std::int32_t kCpu = 1;
enum Code : std::uint8_t { kInteger = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBoolean = 6 };

// Null: the type has none of this version.
const DlTable* table_of(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const auto capsule = py::reinterpret_steal<py::object>(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  const void* found = capsule && PyCapsule_CheckExact(capsule.ptr())
                          ? PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api")
                          : nullptr;
  if (found == nullptr) PyErr_Clear();
  const auto* header = static_cast<const DlHeader*>(found);
  while (header != nullptr && header->version.major != kMajor) header = header->previous;
  const auto* table = static_cast<const DlTable*>(header);
  return table == nullptr || table->to_managed == nullptr || table->from_managed == nullptr ? nullptr : table;
}

using LookAt = std::remove_pointer_t<decltype(DlTable::look_at)>;

LookAt* look_at_of(py::handle value) {
  const DlTable* table = table_of(Py_TYPE(value.ptr()));
  return table == nullptr ? nullptr : table->look_at;
}

std::optional<DType> own_dtype(const DlTensor& t) {
  const auto [code, bits, lanes] = t.dtype;
  if (lanes != 1) return {};
  if (code == kBoolean && bits == 8) return DType::boolean;
  if (code == kInteger && bits == 64) return DType::int64;
  if (code == kFloat && bits == 32) return DType::float32;
  return code == kFloat && bits == 64 ? std::optional(DType::float64) : std::nullopt;
}

// "float16 on device cuda"
std::string described(const DlTensor& t) {
  static constexpr std::array<const char*, 7> kCodes{"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  static constexpr std::array<std::pair<int, const char*>, 6> kDevices{
      {{2, "cuda"}, {3, "cuda_host"}, {8, "metal"}, {10, "rocm"}, {11, "rocm_host"}, {14, "oneapi"}}};
  const auto code = t.dtype.code;
  const std::string kind = code < kCodes.size() ? kCodes[code] : text("code ", int{code}, " of ");
  const std::string dtype = code == kBoolean ? kind : text(kind, int{t.dtype.bits});
  const auto* device =
      std::find_if(kDevices.begin(), kDevices.end(), [&](auto& d) { return d.first == t.device.type; });
  if (t.device.type == kCpu) return dtype;
  return text(dtype, " on device ", device == kDevices.end() ? text("type ", t.device.type) : device->second);
}

bool is_aligned(const DlTensor& t) {
  return (reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset) % (t.dtype.bits / 8) == 0;
}
bool fits(const DlTensor& t) { return own_dtype(t) && t.device.type == kCpu && is_aligned(t); }

Array array_of(const DlTensor& t, BufferOf* buffer, std::shared_ptr<void> owner) {
  Region region{Shape(t.shape, t.shape + t.ndim), {}};
  region.strides = t.strides == nullptr ? row_major(region.shape) : Strides(t.strides, t.strides + t.ndim);
  return array_over(static_cast<char*>(t.data) + t.byte_offset, region, *own_dtype(t), buffer, std::move(owner));
}

// What another library holds of an Array: as long as it lives, so does the memory.
struct HandedOver {
  DlManaged managed;
  Array numbers;
  Shape shape;
  Strides strides;
};

DlManaged* handed_over(const Array& numbers) {
  auto* made = new HandedOver{{}, numbers, numbers.shape(), numbers.strides()};
  DlManaged& managed = made->managed;
  managed.version = {kMajor, 0};
  managed.context = made;
  managed.deleter = [](DlManaged* self) { delete static_cast<HandedOver*>(self->context); };
  const DType dtype = numbers.dtype();
  DlTensor& t = managed.tensor;
  t.data = numbers.first();
  t.device = {kCpu, 0};
  t.ndim = static_cast<std::int32_t>(numbers.rank());
  t.dtype.code = dtype == DType::boolean ? kBoolean : dtype == DType::int64 ? kInteger : kFloat;
  t.dtype.bits = static_cast<std::uint8_t>(8 * item_size(dtype));
  t.dtype.lanes = 1;
  t.shape = made->shape.data();
  t.strides = made->strides.data();
  return &managed;
}

}  // namespace

Array array_over(void* first, const Region& region, DType dtype, BufferOf* buffer, std::shared_ptr<void> owner) {
  const auto& [shape, strides, offset] = region;
  const Index size = item_size(dtype);
  Index least = 0, largest = -1;
  if (shape.numel() > 0) {
    largest = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const Index reach = strides[axis] * (shape[axis] - 1);
      (reach < 0 ? least : largest) += reach;
    }
  }
  char* begin = static_cast<char*>(first) + least * size;
  const auto bytes = static_cast<std::size_t>((largest - least + 1) * size);
  return Array(shape, strides, dtype, buffer(begin, bytes, std::move(owner)), first);
}

std::optional<Array> exchanged(py::handle value, BufferOf* buffer) {
  DlTensor seen;
  LookAt* look_at = look_at_of(value);
  if (look_at == nullptr) return {};
  if (look_at(value.ptr(), &seen) != 0) PyErr_Clear();
  else if (fits(seen)) return array_of(seen, buffer, keep_alive(value));
  return {};
}

Array memory_of(const char* operation, const char* name, py::handle value, BufferOf* buffer) {
  const auto refuse = [&](const std::string& found) {
    fail_type(operation, ": ", name, " must be on the CPU and of dtype float32, float64, int64 or bool; got ",
              type_name(value), found);
  };
  try {
    if (LookAt* look_at = look_at_of(value)) {
      DlTensor seen;
      if (look_at(value.ptr(), &seen) != 0) throw py::error_already_set();
      if (!fits(seen)) refuse(" of " + described(seen) + (own_dtype(seen) && !is_aligned(seen) ? kNotAligned : ""));
      return array_of(seen, buffer, keep_alive(value));
    }
    const bool is_array = py::isinstance<py::array>(value);
    if (!is_array && !py::hasattr(value, "__dlpack__")) refuse(", which has no __dlpack__");
    const bool records = py::bool_(py::getattr(value, "requires_grad", py::bool_(false)));
    const py::object source = records ? py::object(value.attr("detach")()) : py::reinterpret_borrow<py::object>(value);
    const auto array = is_array ? source.cast<py::array>() : numpy().attr("from_dlpack")(source).cast<py::array>();
    if (auto numbers = shared_with(array, buffer)) return *std::move(numbers);
    const bool is_aligned = array.attr("flags").attr("aligned").cast<bool>();
    refuse(" of " + std::string(py::str(array.dtype())) + (is_aligned ? "" : kNotAligned));
  } catch (py::error_already_set& error) {
    const std::string reason = py::str(error.value());  // of C++'s errors with all that called it
    refuse(" (" + reason.substr(0, reason.find('\n')) + ")");
  }
  return {};
}

py::object as_foreign(const Array& numbers, py::handle like) {
  PyTypeObject* type = Py_TYPE(like.ptr());
  if (const DlTable* table = table_of(type)) {
    void* made = nullptr;  // what is handed over is the library's even where it fails
    if (table->from_managed(handed_over(numbers), &made) != 0) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(static_cast<PyObject*>(made));
  }
  py::object array = to_numpy(numbers, true, false);
  if (py::isinstance<py::array>(like)) return array;
  const std::string module = py::str(py::handle(reinterpret_cast<PyObject*>(type)).attr("__module__"));
  return py::module_::import(module.substr(0, module.find('.')).c_str()).attr("from_dlpack")(array);
}

}  // namespace qkv::bindings
