// Functions that refuse arguments in our words: those of C++ (function.h), and those written in Python, as Python's own
// text names neither what a function takes nor what was meant. Where the core has an answer for most calls of a
// function of Python's (direct_call.h), the function is called with the others.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/direct_call.h"
#include "bindings/function.h"
#include "bindings/interpreter.h"
#include "bindings/operation.h"

namespace qkv::bindings {
namespace {

// The parameters of a function of Python's that take True or False, as their annotations say.
struct Flags {
  struct Flag {
    py::object name;
    Py_ssize_t place;  // among the arguments given by position, or behind all of them
  };
  std::string operation;
  std::vector<Flag> all;

  explicit Flags(const py::function& function) : operation(function.attr("__qualname__").cast<std::string>()) {
    for (const char* own : {".__init__", ".__call__", ".forward"})  // those of a class are called by its name
      if (operation.ends_with(own)) operation.erase(operation.rfind('.'));
    const py::object code = function.attr("__code__"), annotations = function.attr("__annotations__");
    const auto by_position = code.attr("co_argcount").cast<Py_ssize_t>();
    Py_ssize_t place = 0;
    for (const py::handle name : code.attr("co_varnames")) {
      const py::object kind = annotations.attr("get")(name);
      if (kind.equal(py::str("bool")) || kind.equal(py::str("bool | None")))
        all.push_back({py::reinterpret_borrow<py::object>(name), place < by_position ? place : PY_SSIZE_T_MAX});
      ++place;
    }
  }

  void check(PyObject* const* arguments, Py_ssize_t count, PyObject* names) const {
    for (const Flag& flag : all) {
      if (flag.place < count) flag_from(arguments[flag.place], operation.c_str(), text_of(flag.name));
      for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* name = PyTuple_GET_ITEM(names, i);
        if (name == flag.name.ptr() ||  // both are interned, but for **{...} of made-up strings
            (PyUnicode_CHECK_INTERNED(name) == 0 && PyUnicode_Compare(name, flag.name.ptr()) == 0))
          flag_from(arguments[count + i], operation.c_str(), text_of(flag.name));
      }
    }
  }

 private:
  static const char* text_of(const py::object& name) { return PyUnicode_AsUTF8(name.ptr()); }
};

// A callable with a name, a documentation and a signature.
struct Explained {
  PyObject_HEAD PyObject* function;       // of Python's; null: of C++
  std::shared_ptr<Signature>* signature;  // of a function of C++
  const Flags* flags;                     // null: none
  const direct::Entry* direct;            // the core's answer; null: none
  bool refuses;                           // arguments that do not fit, in our words
  PyObject* dict;
  PyObject* weak_references;
  vectorcallfunc entry;

  static Explained& of(PyObject* self) { return *reinterpret_cast<Explained*>(self); }

  // Replaces the error that is set and that no line of Python has raised by a TypeError in words of Python's
  // (qkv._errors); None, or a failure of its own, leaves the error.
  static PyObject* refuse(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    py::error_scope scope;
    if (scope.trace != nullptr && scope.trace != Py_None) return nullptr;
    try {
      const py::tuple positional = tuple_of({arguments, static_cast<std::size_t>(count)});
      const auto keywords = names == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(names);
      const py::object words = callback("refusal")(py::handle(of(self).function), positional, keywords);
      if (words.is_none()) return nullptr;
      for (PyObject* old : {scope.type, scope.value, scope.trace}) Py_XDECREF(old);
      PyErr_SetObject(PyExc_TypeError, words.ptr());
      PyErr_Fetch(&scope.type, &scope.value, &scope.trace);
    } catch (const std::exception&) {  // no memory for words, or the interpreter ends
      PyErr_Clear();
    }
    return nullptr;
  }
  static bool are_flags(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    try {
      of(self).flags->check(arguments, count, names);
      return true;
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
      return false;
    }
  }
  static PyObject* call(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    if (of(self).flags != nullptr && !are_flags(self, arguments, PyVectorcall_NARGS(flags), names)) return nullptr;
    PyObject* result = PyObject_Vectorcall(of(self).function, arguments, flags, names);
    if (result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError)) [[unlikely]]
      return refuse(self, arguments, PyVectorcall_NARGS(flags), names);
    return result;
  }

  static PyObject* call_bound(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    return bindings::call(**of(self).signature, self, arguments, PyVectorcall_NARGS(flags), names);
  }

  // Errors are told by the Python function, but not what the interpreter itself has raised.
  static PyObject* call_answer(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    try {
      if (PyObject* result = of(self).direct->answer({arguments, PyVectorcall_NARGS(flags), names, *of(self).direct});
          result != nullptr)
        return result;
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const std::exception&) {
    }
    if (PyErr_Occurred() != nullptr) {
      if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;
      PyErr_Clear();
    }
    return of(self).refuses ? call(self, arguments, flags, names)
                            : PyObject_Vectorcall(of(self).function, arguments, flags, names);
  }

  // Methods of classes are bound as functions are.
  static PyObject* get(PyObject* self, PyObject* object, PyObject*) {
    return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
  }

  static PyObject* represent(PyObject* self) {
    if (of(self).function != nullptr) return PyObject_Repr(of(self).function);
    return PyUnicode_FromFormat("<built-in function %s>", (*of(self).signature)->name.c_str());
  }

  // Pickled by its name, as functions are.
  static PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self).function);
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
    Py_CLEAR(own.dict);
    Py_CLEAR(own.function);
    delete own.signature;
    delete own.flags;
    type->tp_free(self);
    Py_DECREF(type);
  }

  static PyTypeObject* type();
  static py::object make(vectorcallfunc entry);
};

PyTypeObject* Explained::type() {
  static PyTypeObject* made = nullptr;
  if (made != nullptr) return made;
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
  made = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (made == nullptr) throw py::error_already_set();
  return made;
}

py::object Explained::make(vectorcallfunc entry) {
  auto made = py::reinterpret_steal<py::object>(type()->tp_alloc(type(), 0));
  if (!made) throw py::error_already_set();
  of(made.ptr()).entry = entry;
  return made;
}

// A callable with the name, documentation and attributes of the function.
py::object explained(const py::function& function, const direct::Entry* direct, bool refuses) {
  const py::object made = Explained::make(direct == nullptr ? Explained::call : Explained::call_answer);
  Explained::of(made.ptr()).function = function.inc_ref().ptr();
  Explained::of(made.ptr()).direct = direct;
  Explained::of(made.ptr()).refuses = refuses;
  if (auto flags = std::make_unique<const Flags>(function); refuses && !flags->all.empty())
    Explained::of(made.ptr()).flags = flags.release();
  return py::module_::import("functools").attr("update_wrapper")(made, function);
}

// Documentation and signature, where they are read.
void show(const py::object& function, const Signature& s) {
  if (!s.doc.empty()) function.attr("__doc__") = s.doc;
  function.attr("__text_signature__") = s.shown(false);
}

const std::shared_ptr<Signature>* signature_of(py::handle function) {
  return is_bound_function(function.ptr()) ? Explained::of(function.ptr()).signature : nullptr;
}

py::list typed_signatures(py::handle function) {
  py::list found;
  const auto* first = signature_of(function);
  for (const Signature* s = first == nullptr ? nullptr : first->get(); s != nullptr; s = s->next.get())
    found.append(s->name + s->shown(true));
  return found;
}

}  // namespace

py::object function_of(std::shared_ptr<Signature> signature) {
  const py::object made = Explained::make(Explained::call_bound);
  made.attr("__name__") = signature->name;
  made.attr("__qualname__") = signature->owner
                                  ? py::str("{}.{}").format(signature->owner.attr("__name__"), signature->name)
                                  : py::str(signature->name);
  made.attr("__module__") = "qkv._core";
  show(made, *signature);
  Explained::of(made.ptr()).signature = new std::shared_ptr<Signature>(std::move(signature));
  return made;
}

bool is_bound_function(PyObject* object) {
  return Py_TYPE(object) == Explained::type() && Explained::of(object).signature != nullptr;
}

void add_function(py::handle scope, std::unique_ptr<Signature> signature) {
  const std::string name = signature->name;
  if (name == "__eq__" && !scope.attr("__dict__").contains("__hash__")) scope.attr("__hash__") = py::none();
  if (scope.attr("__dict__").contains(name))
    if (const auto* first = signature_of(scope.attr(name.c_str()))) {
      Signature* last = first->get();
      while (last->next) last = last->next.get();
      last->next = std::move(signature);
      show(scope.attr(name.c_str()), (*first)->widest());
      return;
    }
  const py::object function = function_of(std::move(signature));
  scope.attr(name.c_str()) = function;
  if (name != "forward") return;
  // A layer is called with the arguments of its forward: __call__ of each class that defines one says so.
  const auto* call = signature_of(scope.attr("__call__"));
  if (call == nullptr) return;
  const py::object copy = function_of(*call);
  show(copy, **signature_of(function));
  scope.attr("__call__") = copy;
}

void bind_explained(Functions& m) {
  m.def("explained(function)", "The same function; arguments that do not fit its signature are refused in qkv's words.",
        [](const py::function& function) {
          const py::str name = py::str("{}.{}").format(function.attr("__module__"), function.attr("__name__"));
          return explained(function, direct::own_entry_of(name.cast<std::string>()), true);
        });
  m.def("direct(name, function)",
        "The function; calls that the core has an answer for do not enter it. Itself if there is none.",
        [](const std::string& name, const py::function& function) -> py::object {
          const direct::Entry* entry = direct::entry_of(name);
          return entry == nullptr ? py::object(function) : explained(function, entry, false);
        });
  m.def("_typed_signatures(function)", "Signatures with types, one for each overload; for tools/stubs.py.",
        typed_signatures);
}

}  // namespace qkv::bindings
