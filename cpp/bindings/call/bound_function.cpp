// Python's objects for functions of C++ (function.h), which refuse arguments in our words.
#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/call/function.h"
#include "bindings/call/interpreter.h"

namespace qkv::bindings {
namespace {

// A callable with a name, a documentation and a signature.
struct BoundFunction {
  PyObject_HEAD std::shared_ptr<Signature>* signature;
  PyObject* dict;
  PyObject* weak_references;
  vectorcallfunc entry;

  static BoundFunction& of(PyObject* self) { return *reinterpret_cast<BoundFunction*>(self); }

  static PyObject* call_bound(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
    return bindings::call(**of(self).signature, self, arguments, PyVectorcall_NARGS(flags), names);
  }

  // Methods of classes are bound as functions are.
  static PyObject* get(PyObject* self, PyObject* object, PyObject*) {
    return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
  }

  static PyObject* represent(PyObject* self) {
    return PyUnicode_FromFormat("<built-in function %s>", (*of(self).signature)->name.c_str());
  }

  // Pickled by its name, as functions are.
  static PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self).dict);
    return 0;
  }

  static int clear(PyObject* self) {
    Py_CLEAR(of(self).dict);
    return 0;
  }

  static void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    BoundFunction& own = of(self);
    if (own.weak_references != nullptr) PyObject_ClearWeakRefs(self);
    Py_CLEAR(own.dict);
    delete own.signature;
    type->tp_free(self);
    Py_DECREF(type);
  }

  static PyTypeObject* type();
  static py::object make(vectorcallfunc entry);
};

PyTypeObject* BoundFunction::type() {
  static PyTypeObject* made = nullptr;
  if (made != nullptr) return made;
  static std::array<PyMemberDef, 4> members{{
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(BoundFunction, entry), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(BoundFunction, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(BoundFunction, weak_references), READONLY, nullptr},
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
  static PyType_Spec spec{"qkv._core.function", sizeof(BoundFunction), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                              Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          slots.data()};
  made = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (made == nullptr) throw py::error_already_set();
  return made;
}

py::object BoundFunction::make(vectorcallfunc entry) {
  auto made = py::reinterpret_steal<py::object>(type()->tp_alloc(type(), 0));
  if (!made) throw py::error_already_set();
  of(made.ptr()).entry = entry;
  return made;
}

// Documentation and signature, where they are read.
void show(const py::object& function, const Signature& s) {
  if (!s.doc.empty()) function.attr("__doc__") = s.doc;
  function.attr("__text_signature__") = s.shown(false);
}

const std::shared_ptr<Signature>* signature_of(py::handle function) {
  return is_bound_function(function.ptr()) ? BoundFunction::of(function.ptr()).signature : nullptr;
}

}  // namespace

py::list typed_signatures(py::handle function) {
  py::list found;
  const auto* first = signature_of(function);
  for (const Signature* s = first == nullptr ? nullptr : first->get(); s != nullptr; s = s->next.get())
    found.append(s->name + s->shown(true));
  return found;
}

py::object function_of(std::shared_ptr<Signature> signature) {
  const py::object made = BoundFunction::make(BoundFunction::call_bound);
  made.attr("__name__") = signature->name;
  made.attr("__qualname__") = signature->owner
                                  ? py::str("{}.{}").format(signature->owner.attr("__name__"), signature->name)
                                  : py::str(signature->name);
  made.attr("__module__") = "qkv._core";
  show(made, *signature);
  BoundFunction::of(made.ptr()).signature = new std::shared_ptr<Signature>(std::move(signature));
  return made;
}

bool is_bound_function(PyObject* object) {
  return Py_TYPE(object) == BoundFunction::type() && BoundFunction::of(object).signature != nullptr;
}

void add_function(py::handle scope, std::unique_ptr<Signature> signature) {
  const std::string name = signature->name;
  if (name == "forward" && signature->doc.empty())
    signature->doc = "What a call of the module computes; its class says what the arguments are.";
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

}  // namespace qkv::bindings
