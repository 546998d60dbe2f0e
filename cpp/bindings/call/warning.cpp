#include "bindings/call/warning.h"

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace qkv::bindings {

void warn_caller(const std::string& message) {
  py::object frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  py::ssize_t level = 1;
  for (; frame && !frame.is_none(); frame = frame.attr("f_back"), ++level) {
    const py::dict globals = frame.attr("f_globals");
    const std::string module = globals.contains("__name__") ? std::string(py::str(globals["__name__"])) : "";
    if (module != "qkv" && module.rfind("qkv.", 0) != 0) break;
  }
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), level) != 0) throw py::error_already_set();
}

}  // namespace qkv::bindings
