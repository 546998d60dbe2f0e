// Attributes that an object has not: the error says what was meant.
#include <cstring>

#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/class.h"

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
    PyErr_SetObject(PyExc_AttributeError, callback("unknown_attribute")(py::handle(self), py::handle(name)).ptr());
  } catch (const std::exception&) {  // no memory, or the interpreter ends
    PyErr_SetObject(PyExc_AttributeError, name);
  }
}

}  // namespace

PyObject* get_or_suggest(PyObject* self, PyObject* name) {
  PyObject* value = _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1);  // no error of its own
  if (value == nullptr && PyErr_Occurred() == nullptr) [[unlikely]]
    set_attribute_error(self, name);
  return value;
}

void fail_attribute(py::handle object, py::handle name) {
  set_attribute_error(object.ptr(), name.ptr());
  throw py::error_already_set();
}

}  // namespace qkv::bindings
