// Attributes that an object has not: the error says what was meant.
#include <cstring>

#include "bindings/bindings.h"
#include "bindings/explained.h"

namespace py = pybind11;

namespace qkv::bindings {
namespace {

// What NumPy asks of an object at each np.asarray before it takes __array__. The error is the same one each time: it is
// not seen, and to make one takes longer than all the rest.
bool set_error_for_numpy(PyObject* name) {
  static PyObject* const names[] = {PyUnicode_InternFromString("__array_struct__"),
                                    PyUnicode_InternFromString("__array_interface__")};
  static PyObject* const error =
      py::handle(PyExc_AttributeError)("no such protocol of NumPy", py::arg("name") = "", py::arg("obj") = py::none())
          .release()
          .ptr();
  if (name != names[0] && name != names[1]) return false;
  PyException_SetTraceback(error, Py_None);
  PyException_SetContext(error, nullptr);
  PyErr_SetObject(PyExc_AttributeError, error);
  return true;
}

void set_attribute_error(PyObject* self, PyObject* name) {
  if (set_error_for_numpy(name)) return;
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (text == nullptr || *text == '_') {  // a protocol that a library asks for
    PyErr_Clear();
    const char* dot = std::strrchr(Py_TYPE(self)->tp_name, '.');
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'",
                 dot == nullptr ? Py_TYPE(self)->tp_name : dot + 1, name);
    return;
  }
  try {
    const py::object words =
        py::module_::import("qkv._errors").attr("unknown_attribute")(py::handle(self), py::handle(name));
    // Its own name and object, so that Python adds no suggestion to ours when it shows the error.
    const py::object error =
        py::handle(PyExc_AttributeError)(words, py::arg("name") = py::handle(name), py::arg("obj") = py::none());
    PyErr_SetObject(PyExc_AttributeError, error.ptr());
  } catch (const std::exception&) {  // no memory, or the interpreter ends
    PyErr_SetObject(PyExc_AttributeError, name);
  }
}

PyObject* get_or_suggest(PyObject* self, PyObject* name) {
  PyObject* value = _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1);  // no error of its own
  if (value == nullptr && PyErr_Occurred() == nullptr) [[unlikely]]
    set_attribute_error(self, name);
  return value;
}

}  // namespace

void fail_attribute(py::handle object, py::handle name) {
  set_attribute_error(object.ptr(), name.ptr());
  throw py::error_already_set();
}

void suggest_attributes(const py::module_& m) {
  for (const auto& [name, value] : m.attr("__dict__").cast<py::dict>()) {
    if (!PyType_Check(value.ptr())) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (type->tp_getattro != PyObject_GenericGetAttr) continue;  // modules find their parts by a __getattr__
    type->tp_getattro = get_or_suggest;
    PyType_Modified(type);
  }
}

}  // namespace qkv::bindings
