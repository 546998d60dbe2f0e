// Memory of other libraries' tensors, and memory for them, by DLPack: the table of C functions that their type has
// (`__dlpack_c_exchange_api__`), which takes a tenth of the time of `__dlpack__`.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>

#include "autograd/tensor.h"
#include "core/array.h"

namespace qkv::bindings {

namespace py = pybind11;

// Buffer::borrow, share or trust.
using BufferOf = std::shared_ptr<Buffer>(void* data, std::size_t bytes, std::shared_ptr<void> owner);

// Numbers in memory of the owner's: shape and steps of the region, whose first number is at `first`.
Array array_over(void* first, const Region& region, DType dtype, BufferOf* buffer, std::shared_ptr<void> owner);

// The numbers of a tensor whose type has the table; nothing of others, nor where they are not on the CPU or of none of
// our dtypes. The tensor lives as long as the buffer.
std::optional<Array> exchanged(py::handle value, BufferOf* buffer);
// The same of any type that has one of DLPack's ways, or NumPy's array; a TypeError says why there are none.
Array memory_of(const char* operation, const char* name, py::handle value, BufferOf* buffer);
// An object of the class of `like`, an array of another library's, over the numbers.
py::object as_foreign(const Array& numbers, py::handle like);

}  // namespace qkv::bindings
