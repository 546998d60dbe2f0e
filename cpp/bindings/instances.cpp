#include "bindings/instances.h"

#include <cstring>

#include "bindings/class.h"
#include "bindings/interpreter.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

// The class of the core that this class is, or is derived from; pybind11 takes objects of it for objects of that class.
PyTypeObject* core_class(PyTypeObject* type) {
  const auto& classes = py::detail::all_type_info(type);
  return classes.size() == 1 ? classes.front()->type : nullptr;
}

PyObject* get_class(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(self))); }

// object's own would let a Linear become a GRU, whose methods then read a GRU's members from a Linear's memory.
int set_class(PyObject* self, PyObject* value, void*) {
  if (value == nullptr || !PyType_Check(value)) {
    PyErr_Format(PyExc_TypeError, "%.200s: __class__ must be a class", Py_TYPE(self)->tp_name);
    return -1;
  }
  auto* wanted = reinterpret_cast<PyTypeObject*>(value);
  try {
    PyTypeObject* own = core_class(Py_TYPE(self));
    if (own == nullptr || core_class(wanted) != own) {
      PyErr_Format(PyExc_TypeError, "%.200s: __class__ must be derived from the same class of qkv; got %.200s",
                   Py_TYPE(self)->tp_name, wanted->tp_name);
      return -1;
    }
    const py::object descriptor =
        py::handle(reinterpret_cast<PyObject*>(&PyBaseObject_Type)).attr("__dict__")["__class__"];
    descriptor.attr("__set__")(py::handle(self), py::handle(value));
    return 0;
  } catch (py::error_already_set& error) {
    error.restore();
    return -1;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return -1;
  }
}

// `__init__` of a class that is not made by calling it.
PyObject* refuse_construction(PyObject*, PyObject* arguments, PyObject*) {
  const std::string name = PyTuple_GET_SIZE(arguments) > 0 ? type_name(PyTuple_GET_ITEM(arguments, 0)) : "__init__";
  const char* how = name == "Tensor" ? "by qkv.tensor(data)" : "by calling a class derived from it";
  return PyErr_Format(PyExc_TypeError, "%s: must be made %s; got a call of the class", name.c_str(), how);
}

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

void fail_uninitialised(py::handle object) {
  fail_type(type_name(object),
            ": super().__init__() must be called before the object is used; got one whose __init__ has not finished");
}

void finish_class(py::handle cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  static PyGetSetDef own_class = {"__class__", get_class, set_class, nullptr, nullptr};
  const auto descriptor = py::reinterpret_steal<py::object>(PyDescr_NewGetSet(type, &own_class));
  // Not by setattr, which would change the class of the class.
  if (!descriptor || PyDict_SetItemString(type->tp_dict, own_class.name, descriptor.ptr()) != 0)
    throw py::error_already_set();
  // The name of a tp_getattro of its own. Without it, classes derived in Python that define __getattr__ look attributes
  // up as object does, three times as fast.
  if (PyDict_DelItemString(type->tp_dict, "__getattribute__") != 0) PyErr_Clear();
  PyType_Modified(type);
  static PyMethodDef refusal = {"__init__",
                                reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(refuse_construction)),
                                METH_VARARGS | METH_KEYWORDS, "__init__($self)\n--\n\n"};
  const auto* root = reinterpret_cast<PyTypeObject*>(py::detail::get_internals().instance_base);
  if (type->tp_base != root) return;
  // No method of the type: Python 3.13's inspect binds `__init__` to the class, of which such a method is none.
  const auto function = py::reinterpret_steal<py::object>(PyCFunction_New(&refusal, nullptr));
  cls.attr(refusal.ml_name) = py::reinterpret_steal<py::object>(PyInstanceMethod_New(function.ptr()));
}

}  // namespace qkv::bindings
