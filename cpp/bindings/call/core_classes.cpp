#include "bindings/call/core_classes.h"

#include <cstring>
#include <exception>
#include <unordered_set>

#include "bindings/call/interpreter.h"
#include "bindings/call/pybind11_private.h"
#include "core/error.h"

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace qkv::bindings {
namespace {

std::unordered_set<PyObject*>& core_classes() {
  static auto* all = new std::unordered_set<PyObject*>;
  return *all;
}

// What pybind11's `__init__` is called for.
struct Construction {
  const std::function<bool(const NewObject&)>& make;
  PyObject* object;
  bool failed = false;
  std::exception_ptr error = {};
};

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

PyTypeObject* core_class(PyTypeObject* type) {
  PyTypeObject* found = nullptr;
  for (const py::handle base : py::reinterpret_borrow<py::tuple>(type->tp_mro)) {
    if (!core_classes().contains(base.ptr())) continue;
    auto* one = reinterpret_cast<PyTypeObject*>(base.ptr());
    if (found == nullptr) found = one;
    else if (PyType_IsSubtype(found, one) == 0) return nullptr;
  }
  return found;
}

void check_initialised(py::handle object, bool derived) {
  if (!is_initialised(object, derived)) fail_uninitialised(object);
}

bool construct(py::handle pybind11_init, py::handle object, const std::function<bool(const NewObject&)>& make) {
  Construction c{make, object.ptr()};
  const py::int_ address(reinterpret_cast<std::uintptr_t>(&c));
  const auto made = py::reinterpret_steal<py::object>(
      PyObject_CallFunctionObjArgs(pybind11_init.ptr(), object.ptr(), address.ptr(), nullptr));
  if (made) return true;
  if (!c.failed && !c.error) throw py::error_already_set();
  PyErr_Clear();  // make_for_pybind11's
  if (c.error) std::rethrow_exception(c.error);
  return false;
}

void make_for_pybind11(std::uintptr_t construction, void* holder, bool derived) {
  auto& c = *reinterpret_cast<Construction*>(construction);
  try {
    c.failed = !c.make({c.object, holder, derived});
#if defined(__GLIBCXX__)
  } catch (abi::__forced_unwind&) {
    throw;
#endif
  } catch (...) {
    c.error = std::current_exception();
  }
  if (!c.failed && !c.error) return;
  PyErr_SetNone(PyExc_TypeError);  // ends pybind11's call
  throw py::error_already_set();
}

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
  core_classes().insert(cls.ptr());
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
  if (core_class(type->tp_base) != nullptr) return;
  // Not a method of the type: Python 3.13's inspect binds `__init__` to the class, and such a method is not the
  // class's.
  const auto function = py::reinterpret_steal<py::object>(PyCFunction_New(&refusal, Py_None));
  cls.attr(refusal.ml_name) = py::reinterpret_steal<py::object>(PyInstanceMethod_New(function.ptr()));
}

}  // namespace qkv::bindings
