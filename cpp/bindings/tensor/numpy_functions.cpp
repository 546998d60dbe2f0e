// NumPy's functions on Tensors: calls what implements them (python/qkv/_numpy), without a detour through Python where
// the first argument decides. NumPy's own dispatch of np.squeeze(t) takes some 0.3 us, the general way 4 us more.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bindings/call/errors.h"
#include "bindings/call/interpreter.h"
#include "bindings/call/pybind11_private.h"
#include "bindings/tensor/tensor_class.h"

namespace qkv::bindings {
namespace {

// What implements a function, and whether for Tensors of any dtype; what implements calls by position alone of so many
// arguments at most, or None.
using Implementation = std::tuple<py::object, bool, py::object, Py_ssize_t>;

// Never let go: the interpreter may be gone by then.
struct Tables {
  const py::dict names = callback("numpy_tables")();
  const py::dict calls = names["ufuncs"];  // what implements a ufunc
  const py::object general = names["array_function"], unsupported = names["unsupported"], array = names["array"];
  std::unordered_map<PyObject*, Implementation> functions;

  static const Tables& get() {
    static const auto* tables = [] {
      auto* made = new Tables;
      for (const auto& [function, implementation] : py::dict(made->names["functions"]))
        made->functions[function.ptr()] = implementation.cast<Implementation>();
      return made;
    }();
    return *tables;
  }
};

bool is_subclass(PyObject* type, PyTypeObject* of) {
  return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), of) != 0;
}

bool is_floating_tensor(py::handle value) {
  if (!is_tensor(value)) return false;
  const auto* impl = held_tensor(value.ptr());
  return impl != nullptr && is_floating((*impl)->array.dtype());
}

// Whether an argument is a Tensor that the implementation takes, or the first one begins with such, and no class but
// Tensors and arrays takes part.
bool decides(const Tables& tables, bool any_dtype, PyObject* types, PyObject* arguments) {
  if (!PyTuple_CheckExact(types) || !PyTuple_CheckExact(arguments) || PyTuple_GET_SIZE(arguments) == 0) return false;
  PyObject* const* kinds = PySequence_Fast_ITEMS(types);
  auto* array = reinterpret_cast<PyTypeObject*>(tables.array.ptr());
  const auto takes_part = [&](PyObject* type) {
    return is_subclass(type, class_of<TensorImpl>) || is_subclass(type, array);
  };
  if (!std::all_of(kinds, kinds + PyTuple_GET_SIZE(types), takes_part)) return false;
  py::handle first = PyTuple_GET_ITEM(arguments, 0);
  if (PyList_CheckExact(first.ptr()) && PyList_GET_SIZE(first.ptr()) > 0) first = PyList_GET_ITEM(first.ptr(), 0);
  else if (PyTuple_CheckExact(first.ptr()) && PyTuple_GET_SIZE(first.ptr()) > 0)
    first = PyTuple_GET_ITEM(first.ptr(), 0);
  else if (any_dtype && is_tensor(first)) return true;
  PyObject* const* all = PySequence_Fast_ITEMS(arguments);
  return is_floating_tensor(first) || std::any_of(all, all + PyTuple_GET_SIZE(arguments), is_floating_tensor);
}

// What a method of NumPy's protocols returns; it is called without pybind11's conversion of arguments, which takes as
// long as a small operation.
template <class F> PyObject* with_errors(F call) {
  try {
    return call();
  } catch (const std::exception&) {
    set_error();
  }
  return nullptr;
}

// function, types, args, kwargs.
PyObject* array_function(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  return with_errors([&] {
    if (count != 4) fail_type("__array_function__: takes function, types, args and kwargs; got ", count, " arguments");
    const Tables& tables = Tables::get();
    PyObject *function = given[0], *arguments = given[2], *options = PyDict_Check(given[3]) != 0 ? given[3] : nullptr;
    const auto found = tables.functions.find(function);
    if (found != tables.functions.end() && decides(tables, std::get<bool>(found->second), given[1], arguments)) {
      const auto& [implementation, any_dtype, method, most] = found->second;
      const bool by_position = options == nullptr || PyDict_GET_SIZE(options) == 0;
      const bool shortest = by_position && PyTuple_GET_SIZE(arguments) <= most;
      PyObject* result = PyObject_Call((shortest ? method : implementation).ptr(), arguments, options);
      if (result != nullptr || PyErr_ExceptionMatches(tables.unsupported.ptr()) == 0) return result;
    }
    PyErr_Clear();
    return PyObject_CallFunctionObjArgs(tables.general.ptr(), self, function, given[1], arguments, given[3], nullptr);
  });
}

// ufunc, method, inputs; options.
PyObject* array_ufunc(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  return with_errors([&] {
    if (count < 2) fail_type("__array_ufunc__: takes ufunc, method and inputs; got ", count, " arguments");
    PyObject *const ufunc = given[0], *const method = given[1], *const *inputs = given + 2;
    if ((names == nullptr || PyTuple_GET_SIZE(names) == 0) && PyUnicode_Check(method) != 0 &&
        PyUnicode_CompareWithASCIIString(method, "__call__") == 0) {
      if (count == 4)
        if (py::object result = operator_call(ufunc, inputs[0], inputs[1])) return result.release().ptr();
      PyObject* implementation = PyDict_GetItemWithError(Tables::get().calls.ptr(), ufunc);
      if (implementation != nullptr && std::any_of(inputs, given + count, is_floating_tensor))
        return PyObject_Vectorcall(implementation, inputs, static_cast<std::size_t>(count - 2), nullptr);
      PyErr_Clear();
    }
    std::vector<PyObject*> all{self};
    all.insert(all.end(), given, given + count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names)));
    return PyObject_Vectorcall(callback("array_ufunc").ptr(), all.data(), static_cast<std::size_t>(count + 1), names);
  });
}

PyMethodDef methods[] = {
    {"__array_function__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_function)), METH_FASTCALL,
     "Answers NumPy's functions."},
    {"__array_ufunc__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(array_ufunc)),
     METH_FASTCALL | METH_KEYWORDS, "Answers NumPy's functions of single numbers."}};

}  // namespace

void refuse_numpys_list() {
  PyObject* globals = PyEval_GetGlobals();  // of the Python code that runs
  PyObject* name = globals == nullptr ? nullptr : PyDict_GetItemString(globals, "__name__");
  if (name == nullptr || PyUnicode_Check(name) == 0) return;
  const std::string module = py::cast<std::string>(name);
  if (module == "numpy" || module.starts_with("numpy.")) callback("refuse_list")();
}

void def_numpy(TensorClass& tensor) {
  for (PyMethodDef& method : methods)
    tensor.attr(method.ml_name) =
        py::reinterpret_steal<py::object>(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(tensor.ptr()), &method));
}

}  // namespace qkv::bindings
