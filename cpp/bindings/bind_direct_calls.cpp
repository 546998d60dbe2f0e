#include "bindings/direct_call.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "bindings/bindings.h"
#include "bindings/convert.h"

namespace qkv::bindings::direct {
namespace {

struct Function {
  PyObject_HEAD vectorcallfunc call;
  PyObject* python;
  Answer answer;
};

// Errors are told by the Python function, but not what the interpreter itself has raised.
PyObject* answered(Answer answer, const Given& given) {
  try {
    return answer(given);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception&) {
  }
  return nullptr;
}

PyObject* call(PyObject* self, PyObject* const* values, std::size_t flags, PyObject* names) {
  const auto* function = reinterpret_cast<Function*>(self);
  const Given given{values, PyVectorcall_NARGS(flags), names};
  if (PyObject* result = answered(function->answer, given); result != nullptr) return result;
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;
    PyErr_Clear();
  }
  return PyObject_Vectorcall(function->python, values, flags, names);
}

PyObject* bound(PyObject* self, PyObject* object, PyObject*) {
  return object == nullptr || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

PyObject* wrapped(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<Function*>(self)->python); }

// A function's name, docstring and module are those of the Python function.
PyObject* attribute(PyObject* self, PyObject* name) {
  static constexpr const char* kOwn[] = {"__class__",   "__call__",   "__get__",
                                         "__wrapped__", "__reduce__", "__reduce_ex__"};
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  if (std::any_of(std::begin(kOwn), std::end(kOwn), [&](const char* own) { return std::strcmp(own, text) == 0; }))
    return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(reinterpret_cast<Function*>(self)->python, name);
}

PyObject* reduced(PyObject* self, PyObject*) {
  return PyObject_GetAttrString(reinterpret_cast<Function*>(self)->python, "__qualname__");
}

PyObject* shown_as(PyObject* self) { return PyObject_Repr(reinterpret_cast<Function*>(self)->python); }

PyTypeObject* function_type() {
  static PyTypeObject* type = [] {
    static PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, call), READONLY, nullptr},
                                    {}};
    static PyGetSetDef properties[] = {{"__wrapped__", wrapped, nullptr, nullptr, nullptr}, {}};
    static PyMethodDef methods[] = {{"__reduce__", reduced, METH_NOARGS, nullptr}, {}};
    static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                  {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                                  {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
                                  {Py_tp_repr, reinterpret_cast<void*>(shown_as)},
                                  {Py_tp_members, members},
                                  {Py_tp_getset, properties},
                                  {Py_tp_methods, methods},
                                  {0, nullptr}};
    static PyType_Spec spec = {"qkv._core.direct_function", sizeof(Function), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                                   Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               slots};
    PyObject* made = PyType_FromSpec(&spec);
    if (made == nullptr) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(made);
  }();
  return type;
}

// The function itself if the core has no answer of that name.
py::object direct(const std::string& name, py::object python) {
  Answer answer = nullptr;
  for (const auto entries : {number_entries(), view_entries()})
    for (const Entry& entry : entries)
      if (name == entry.name) answer = entry.answer;
  if (answer == nullptr) return python;
  auto* function = PyObject_New(Function, function_type());
  if (function == nullptr) throw py::error_already_set();
  function->call = call;
  function->python = python.release().ptr();  // lives as long as the interpreter
  function->answer = answer;
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(function));
}

// Nodes keep the address, and may outlive the interpreter.
const char* kept(const std::string& label) {
  static auto* labels = new std::set<std::string>;
  return labels->insert(label).first->c_str();
}

}  // namespace

Classes& classes() {
  static Classes all;
  return all;
}

PyObject* instance_of(PyTypeObject* cls, const Tensor& t) {
  static const py::detail::type_info* core = py::detail::get_type_info(typeid(TensorImpl));
  own_numbers(t);
  PyObject* object = py::detail::make_new_instance(cls);
  auto* instance = reinterpret_cast<py::detail::instance*>(object);
  instance->get_value_and_holder().value_ptr() = t.impl().get();
  core->init_instance(instance, &t.impl());
  return object;
}

void set_label(const Tensor& t, const char* label) {
  Node* node = t.current().node.get();
  if (node == nullptr) return;
  if (node->name != nullptr &&
      (std::strcmp(node->name, "CopySlices") == 0 || std::strcmp(node->name, "AsStridedBackward0") == 0))
    return;
  node->name = label;
}

}  // namespace qkv::bindings::direct

namespace qkv::bindings {

void bind_direct_calls(py::module_& m) {
  m.def("direct", direct::direct, py::arg("name"), py::arg("function"));
  m.def(
      "direct_classes",
      [](const std::map<std::string, py::type>& given) {
        const std::map<std::string, PyTypeObject**> places = {{"tensor", &direct::classes().tensor},
                                                              {"shape", &direct::classes().shape},
                                                              {"max", &direct::classes().max},
                                                              {"min", &direct::classes().min}};
        for (const auto& [name, cls] : given) *places.at(name) = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
      },
      py::arg("classes"));
  m.def(
      "instance_of",
      [](const py::type& cls, const Tensor& t, const std::string& label) {
        auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
        if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(py::type::of<TensorImpl>().ptr())) == 0)
          fail_type("instance_of: cls must be derived from Tensor; got ", std::string(py::str(cls.attr("__name__"))));
        if (!label.empty()) direct::set_label(t, direct::kept(label));
        return py::reinterpret_steal<py::object>(direct::instance_of(type, t));
      },
      py::arg("cls"), py::arg("t"), py::arg("label") = "");
  m.def(
      "set_label", [](const Tensor& t, const std::string& label) { direct::set_label(t, direct::kept(label)); },
      py::arg("t"), py::arg("label"));
}

}  // namespace qkv::bindings
