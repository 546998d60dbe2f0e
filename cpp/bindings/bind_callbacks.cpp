// Functions written in Python that the core calls, which the package registers when it is imported.
#include <stdexcept>
#include <string>

#include "bindings/bindings.h"
#include "bindings/interpreter.h"

namespace qkv::bindings {
namespace {

py::dict& registered() {
  static auto* callbacks = new py::dict;  // never let go: the interpreter may be gone by then
  return *callbacks;
}

}  // namespace

py::object callback(const char* name) {
  PyObject* found = PyDict_GetItemString(registered().ptr(), name);
  if (found == nullptr) throw std::logic_error(std::string("qkv: no callback ") + name);
  return py::reinterpret_borrow<py::object>(found);
}

void bind_callbacks(Functions& m) {
  m.def("register_callbacks", "Let the core call functions written in Python, by these names.",
        [](const py::kwargs& callbacks) { registered().attr("update")(callbacks); });
}

}  // namespace qkv::bindings
