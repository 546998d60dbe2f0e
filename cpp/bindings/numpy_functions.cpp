// NumPy's functions on Tensors: calls what answers them (python/qkv/_numpy), without a detour through Python where the
// first argument decides. NumPy's own dispatch of np.squeeze(t) takes some 0.3 us, the general way 4 us more.
#include <pybind11/pybind11.h>

#include "bindings/call_python.h"
#include "bindings/tensor_class.h"

namespace qkv::bindings {
namespace {

// Never let go: the interpreter may be gone by then.
struct Tables {
  py::dict functions, calls;  // what answers a function, a ufunc
  py::set any_dtype;          // functions that take Tensors of any dtype
  py::object general, unsupported, array;

  static const Tables& get() {
    static const auto* tables = [] {
      const py::dict names = callback("numpy_tables")();
      return new Tables{names["functions"],      names["ufuncs"],      names["any_dtype"],
                        names["array_function"], names["unsupported"], py::module_::import("numpy").attr("ndarray")};
    }();
    return *tables;
  }
};

bool is_floating_tensor(py::handle value) { return is_tensor(value) && is_floating(value.cast<Tensor>().dtype()); }

// Whether the first argument is a Tensor, or begins with one, that the answer takes, and no class but Tensors and
// arrays takes part.
bool decides(const Tables& tables, PyObject* function, PyObject* types, PyObject* arguments) {
  if (!PyTuple_CheckExact(types) || !PyTuple_CheckExact(arguments) || PyTuple_GET_SIZE(arguments) == 0) return false;
  PyObject* tensor = py::type::of<TensorImpl>().ptr();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(types, i));
    if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor)) == 0 &&
        PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tables.array.ptr())) == 0)
      return false;
  }
  py::handle first = PyTuple_GET_ITEM(arguments, 0);
  if (is_tensor(first) && PySet_Contains(tables.any_dtype.ptr(), function) == 1) return true;
  if (PyList_CheckExact(first.ptr()) && PyList_GET_SIZE(first.ptr()) > 0) first = PyList_GET_ITEM(first.ptr(), 0);
  else if (PyTuple_CheckExact(first.ptr()) && PyTuple_GET_SIZE(first.ptr()) > 0)
    first = PyTuple_GET_ITEM(first.ptr(), 0);
  return is_floating_tensor(first);
}

// function, types, args, kwargs. Without pybind11's conversion of arguments, which takes as long as a small operation.
PyObject* array_function(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  try {
    if (count != 4) fail_type("__array_function__: takes function, types, args and kwargs; got ", count, " arguments");
    const Tables& tables = Tables::get();
    PyObject* answer = PyDict_GetItemWithError(tables.functions.ptr(), given[0]);
    if (answer != nullptr && decides(tables, given[0], given[1], given[2])) {
      PyObject* result = PyObject_Call(answer, given[2], PyDict_Check(given[3]) != 0 ? given[3] : nullptr);
      if (result != nullptr || PyErr_ExceptionMatches(tables.unsupported.ptr()) == 0) return result;
    }
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(tables.general.ptr(), self, given[0], given[1], given[2], given[3], nullptr);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return nullptr;
}

PyMethodDef array_function_def = {"__array_function__",
                                  reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_function)),
                                  METH_FASTCALL, "Answers NumPy's functions."};

}  // namespace

py::object numpy_call(py::handle ufunc, const py::args& inputs) {
  const py::handle answer = PyDict_GetItemWithError(Tables::get().calls.ptr(), ufunc.ptr());
  if (!answer) {
    PyErr_Clear();
    return {};
  }
  for (const py::handle input : inputs)
    if (is_floating_tensor(input)) return answer(*inputs);
  return {};
}

void refuse_numpys_list() {
  PyObject* globals = PyEval_GetGlobals();  // of the Python code that runs
  PyObject* name = globals == nullptr ? nullptr : PyDict_GetItemString(globals, "__name__");
  if (name == nullptr || PyUnicode_Check(name) == 0) return;
  const std::string module = py::cast<std::string>(name);
  if (module == "numpy" || module.starts_with("numpy.")) callback("refuse_list")();
}

void def_numpy(TensorClass& tensor) {
  tensor.attr("__array_function__") = py::reinterpret_steal<py::object>(
      PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(tensor.ptr()), &array_function_def));
}

}  // namespace qkv::bindings
