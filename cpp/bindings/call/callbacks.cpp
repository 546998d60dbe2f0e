// Functions written in Python that the core calls, which the package registers when it is imported.
#include <stdexcept>
#include <string>

#include "bindings/call/interpreter.h"

namespace py = pybind11;

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

void register_callbacks(const py::kwargs& callbacks) { registered().attr("update")(callbacks); }

std::string type_name(py::handle value) { return py::str(py::type::handle_of(value).attr("__name__")); }

std::string described(py::handle value) { return py::str(callback("shown")(value)); }

}  // namespace qkv::bindings
