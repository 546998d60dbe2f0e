// Memory shared with tensors of other libraries, both ways.
#include "bindings/values/exchange.h"

#include "autograd/in_place.h"
#include "bindings/bindings.h"
#include "bindings/values/operation.h"

namespace qkv::bindings {
namespace {

// Whether nobody but this Tensor, and what a graph saved, holds its memory.
bool is_alone(const Tensor& t) {
  forget_hidden_base(t);
  const auto& buffer = t.layout().buffer();
  return buffer->own() && !buffer->is_viewed() && buffer.use_count() <= 1 + buffer->savers();
}

py::object handed_over(py::handle result, py::handle like) {
  if (const Tensor t = tensor_or_undefined(result); t.defined()) {
    const Array& numbers = t.data();
    return as_foreign(is_alone(t) && !overlaps_itself(numbers) ? numbers : cloned(numbers), like);
  }
  const auto array = of_class<py::array>("handed_over", "result", "be a Tensor or a NumPy array", result);
  const auto numbers = array.writeable() ? shared_with(array, Buffer::trust) : std::nullopt;
  return as_foreign(numbers ? *numbers : copy_of(array, py::none(), "handed_over"), like);
}

}  // namespace

void bind_exchange(Functions& m) {
  m.def("shared_memory(x)",
        "A Tensor in the memory of another library's tensor with any strides: no copy, and gradients neither copy "
        "nor compare it, as that library notices changes itself. x lives as long as anything here reads it.",
        [](py::handle x) { return Tensor(memory_of("shared_memory", "x", x, Buffer::trust)); });
  m.def("handed_over(result, like)",
        "An object of the class of `like`, a tensor of another library's, in the memory of a Tensor or NumPy array, "
        "which may be written to and lives until that library frees it. A copy where others hold the memory, too.",
        handed_over);
  m.def("is_saved(t)", "Whether gradients need the numbers in this memory.",
        [](const Tensor& t) { return t.layout().buffer()->savers() > 0; });
}

}  // namespace qkv::bindings
