#include "bindings/modules/defined_call.h"

#include "bindings/call/function.h"
#include "core/error.h"
#include "nn/observer.h"

namespace qkv::bindings {

namespace {

// Whether a class has this method from one written in Python.
bool in_python(PyTypeObject* type, PyObject* method) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), method);
  if (found == nullptr) PyErr_Clear();  // a Module has no forward
  const bool own = found != nullptr && !is_bound_function(found);
  Py_XDECREF(found);
  return own;
}

// What a function says of its arguments: after decorators, which take any and hand them on, as inspect.signature
// looks.
py::object undecorated(py::object function) {
  while (py::hasattr(function, "__wrapped__")) function = function.attr("__wrapped__");
  return function;
}

}  // namespace

DefinedCall defined_call(py::handle self) {
  if (!self) return {};
  static PyObject* const call = PyUnicode_InternFromString("__call__");
  static PyObject* const forward = PyUnicode_InternFromString("forward");
  const auto object = py::reinterpret_borrow<py::object>(self);
  if (in_python(Py_TYPE(self.ptr()), call)) return {object, object};
  PyObject** attributes = _PyObject_GetDictPtr(self.ptr());
  const bool assigned =
      attributes != nullptr && *attributes != nullptr && PyDict_GetItemWithError(*attributes, forward) != nullptr;
  if (!assigned && !in_python(Py_TYPE(self.ptr()), forward)) return {};
  if (nn::Observer::any()) return {object, object};  // by Module's __call__, which shows input and output
  return {object, object.attr(py::handle(forward))};
}

py::object defined_method(py::handle self, const char* name) {
  const py::str method(name);
  if (!self || !in_python(Py_TYPE(self.ptr()), method.ptr())) return {};
  return self.attr(method);
}

bool DefinedCall::takes(const char* keyword, bool named) const {
  const py::object code = py::getattr(undecorated(self.attr("forward")), "__code__", py::none());
  if (code.is_none()) return !named;
  constexpr int kAnyKeywords = 0x08;  // CO_VARKEYWORDS
  if (!named && (code.attr("co_flags").cast<int>() & kAnyKeywords) != 0) return true;
  const auto names = code.attr("co_varnames").cast<py::tuple>();
  const auto count = code.attr("co_argcount").cast<std::size_t>() + code.attr("co_kwonlyargcount").cast<std::size_t>();
  for (std::size_t i = 0; i < count; ++i)
    if (names[i].cast<std::string_view>() == keyword) return true;
  return false;
}

bool DefinedCall::needs(Index count) const {
  const py::object forward = self.attr("forward"), function = undecorated(forward),
                   code = py::getattr(function, "__code__", py::none());
  if (code.is_none()) return false;
  constexpr int kAnyPositions = 0x04;  // CO_VARARGS
  if ((code.attr("co_flags").cast<int>() & kAnyPositions) != 0) return true;
  const py::object defaults = function.attr("__defaults__");
  const Index optional = defaults.is_none() ? 0 : static_cast<Index>(py::len(defaults));
  const Index bound = py::hasattr(forward, "__self__") ? 1 : 0;
  return code.attr("co_argcount").cast<Index>() - optional - bound >= count;
}

void wrong_result(const DefinedCall& call, const char* wanted, py::handle got) {
  fail_type(type_name(call.self), ": forward must return ", wanted, " to the module that calls it; got ",
            type_name(got));
}

Tensor call_for_tensor(const DefinedCall& call, const py::tuple& arguments, py::handle keywords) {
  const py::object result = call_python(call.function, arguments, keywords);
  if (!is_tensor(result)) wrong_result(call, "a Tensor", result);
  return result.cast<Tensor>();
}

}  // namespace qkv::bindings
