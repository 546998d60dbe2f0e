// Functions written in Python that refuse arguments in our words, as bound ones do: Python's own text names neither
// what a function takes nor what was meant. Where the function only documents a compiled one, the compiled one is
// called without a frame of Python in between; where the core has an answer for most calls (direct_call.h), the
// function is called with the others.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <stdexcept>

#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "bindings/direct_call.h"
#include "bindings/explained.h"

namespace py = pybind11;

namespace qkv::bindings {
namespace {

// As functools.lru_cache makes them: a callable with the name, documentation and signature of what it wraps.
struct Explained {
  static constexpr Py_ssize_t kMost = 32;  // arguments of a function that only documents

  PyObject_HEAD PyObject* function;
  PyObject* target;    // what is called with all arguments by position; null: the function, as it is called
  PyObject* names;     // tuple of the arguments' names, for a target
  PyObject* defaults;  // tuple of the same length; the names' tuple itself where there is no default
  Py_ssize_t positional;
  direct::Answer answer;  // null: none
  PyObject* dict;
  PyObject* weak_references;
  vectorcallfunc entry;

  static Explained& of(PyObject* self) { return *reinterpret_cast<Explained*>(self); }

  static PyObject* refuse(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    replace_type_error([&]() -> py::object {
      py::tuple positional(static_cast<std::size_t>(count));
      for (Py_ssize_t i = 0; i < count; ++i) positional[static_cast<std::size_t>(i)] = py::handle(arguments[i]);
      const auto keywords = names == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(names);
      return callback("refusal")(py::handle(of(self).function), positional, keywords);
    });
    return nullptr;
  }

  static PyObject* call(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    PyObject* result = PyObject_Vectorcall(of(self).function, arguments, flags, names);
    if (result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) [[unlikely]]
      return refuse(self, arguments, PyVectorcall_NARGS(flags), names);
    return result;
  }

  static Py_ssize_t place_of(const Explained& own, PyObject* name) {
    const Py_ssize_t count = PyTuple_GET_SIZE(own.names);
    for (Py_ssize_t i = 0; i < count; ++i)
      if (PyTuple_GET_ITEM(own.names, i) == name) return i;  // both are interned, but for **{...} of made-up strings
    for (Py_ssize_t i = 0; i < count; ++i)
      if (PyUnicode_Compare(PyTuple_GET_ITEM(own.names, i), name) == 0) return i;
    return -1;
  }

  static PyObject* call_target(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    const Explained& own = of(self);
    const Py_ssize_t given = PyVectorcall_NARGS(flags), count = PyTuple_GET_SIZE(own.names);
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    std::array<PyObject*, kMost> all;
    bool fits = given <= own.positional;
    for (Py_ssize_t i = 0; fits && i < count; ++i)
      all[static_cast<std::size_t>(i)] = i < given ? arguments[i] : nullptr;
    for (Py_ssize_t i = 0; fits && i < named; ++i) {
      const Py_ssize_t place = place_of(own, PyTuple_GET_ITEM(names, i));
      fits = place >= given;
      if (fits) all[static_cast<std::size_t>(place)] = arguments[given + i];
    }
    for (Py_ssize_t i = given; fits && i < count; ++i) {
      PyObject*& argument = all[static_cast<std::size_t>(i)];
      if (argument == nullptr) argument = PyTuple_GET_ITEM(own.defaults, i);
      fits = argument != own.names;
    }
    if (fits) [[likely]]
      return PyObject_Vectorcall(own.target, all.data(), static_cast<size_t>(count), nullptr);
    PyErr_SetString(PyExc_TypeError, "the arguments do not fit");
    return refuse(self, arguments, given, names);
  }

  // Errors are told by the Python function, but not what the interpreter itself has raised.
  static PyObject* call_answer(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    try {
      if (PyObject* result = of(self).answer({arguments, PyVectorcall_NARGS(flags), names}); result != nullptr)
        return result;
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const std::exception&) {
    }
    if (PyErr_Occurred() != nullptr) {
      if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;
      PyErr_Clear();
    }
    return PyObject_Vectorcall(of(self).function, arguments, flags, names);
  }

  // Methods of classes are bound as functions are.
  static PyObject* get(PyObject* self, PyObject* object, PyObject*) {
    return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
  }

  static PyObject* represent(PyObject* self) { return PyObject_Repr(of(self).function); }

  // Pickled by its name, as functions are.
  static PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self).function);
    Py_VISIT(of(self).target);
    Py_VISIT(of(self).defaults);
    Py_VISIT(of(self).dict);
    return 0;
  }

  static int clear(PyObject* self) {
    Py_CLEAR(of(self).dict);
    return 0;  // not the functions: who still holds this may call it
  }

  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Explained& own = of(self);
    if (own.weak_references != nullptr) PyObject_ClearWeakRefs(self);
    for (PyObject** part : {&own.dict, &own.function, &own.target, &own.names, &own.defaults}) Py_CLEAR(*part);
    type->tp_free(self);
    Py_DECREF(type);
  }

  static PyTypeObject* make_type();
  void send_to(const py::function& compiled);
};

PyTypeObject* Explained::make_type() {
  static std::array<PyMemberDef, 4> members{{
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(Explained, entry), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(Explained, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(Explained, weak_references), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  }};
  static std::array<PyGetSetDef, 2> properties{{
      {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr},
  }};
  static std::array<PyMethodDef, 2> methods{{
      {"__reduce__", reduce, METH_NOARGS, nullptr},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 10> slots{{
      {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
      {Py_tp_descr_get, reinterpret_cast<void*>(get)},
      {Py_tp_repr, reinterpret_cast<void*>(represent)},
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(clear)},
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
      {Py_tp_members, members.data()},
      {Py_tp_getset, properties.data()},
      {Py_tp_methods, methods.data()},
      {0, nullptr},
  }};
  static PyType_Spec spec{"qkv._core.function", sizeof(Explained), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                              Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          slots.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

// Reads the signature of the function, which has neither *args nor **kwargs.
void Explained::send_to(const py::function& compiled) {
  const py::object code = py::handle(function).attr("__code__");
  positional = code.attr("co_argcount").cast<Py_ssize_t>();
  const auto count = positional + code.attr("co_kwonlyargcount").cast<Py_ssize_t>();
  const py::object usual = py::handle(function).attr("__defaults__");
  const py::object by_name = py::handle(function).attr("__kwdefaults__");
  const Py_ssize_t optional = usual.is_none() ? 0 : PyTuple_GET_SIZE(usual.ptr());
  if (count > kMost) throw std::logic_error("explained: too many arguments");
  names = PyTuple_GetSlice(code.attr("co_varnames").ptr(), 0, count);
  defaults = PyTuple_New(count);
  if (names == nullptr || defaults == nullptr) throw py::error_already_set();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* value = names;
    if (i < positional && i >= positional - optional)
      value = PyTuple_GET_ITEM(usual.ptr(), i - (positional - optional));
    else if (i >= positional && !by_name.is_none())
      value = PyDict_GetItemWithError(by_name.ptr(), PyTuple_GET_ITEM(names, i));
    PyTuple_SET_ITEM(defaults, i, Py_NewRef(value == nullptr ? names : value));
  }
  target = compiled.inc_ref().ptr();
  entry = call_target;
  // Where the binding names no arguments, errors find the names here.
  const py::handle inner = py::detail::get_function(compiled);
  auto* record = py::detail::function_record_ptr_from_PyObject(PyCFunction_GET_SELF(inner.ptr()));
  if (record == nullptr || !record->args.empty() || record->nargs != static_cast<std::size_t>(count)) return;
  for (Py_ssize_t i = 0; i < count; ++i)
    record->args.emplace_back(strdup(PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i))), nullptr, py::handle(), true, true);
}

// A callable with the name, documentation and attributes of the function.
py::object explained(const py::function& function, const std::optional<py::function>& compiled, direct::Answer answer) {
  static PyTypeObject* const type = Explained::make_type();
  auto made = py::reinterpret_steal<py::object>(type->tp_alloc(type, 0));
  if (!made) throw py::error_already_set();
  Explained& own = Explained::of(made.ptr());
  own.function = function.inc_ref().ptr();
  own.answer = answer;
  own.entry = answer == nullptr ? Explained::call : Explained::call_answer;
  if (compiled) own.send_to(*compiled);
  return py::module_::import("functools").attr("update_wrapper")(made, function);
}

}  // namespace

void bind_explained(py::module_& m) {
  m.def(
      "explained",
      [](const py::function& function, const std::optional<py::function>& compiled) {
        return explained(function, compiled, nullptr);
      },
      py::arg("function"), py::arg("compiled") = py::none(),
      "The same function; arguments that do not fit its signature are refused in qkv's words. With `compiled`, calls "
      "go there, with all arguments by position, and the function is documentation.");
  m.def(
      "direct",
      [](const std::string& name, const py::function& function) -> py::object {
        const direct::Answer answer = direct::answer_of(name);
        return answer == nullptr ? py::object(function) : explained(function, {}, answer);
      },
      py::arg("name"), py::arg("function"),
      "The function; calls that the core has an answer for do not enter it. Itself if there is none.");
}

}  // namespace qkv::bindings
