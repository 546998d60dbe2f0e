// What inspect.signature and help() show of bound functions. pybind11 opens a docstring with a line of C++ types, which
// Python cannot read; in its place comes a text signature, "name(x, *, mask=None)\n--\n\n", which CPython reads itself.
#include <cstdlib>
#include <cstring>
#include <deque>

#include "bindings/bindings.h"

namespace py = pybind11;

namespace qkv::bindings {
namespace {

using py::detail::argument_record;
using py::detail::function_record;

PyObject* function_of(py::handle callable) {
  PyObject* function = py::detail::get_function(callable).ptr();
  return function != nullptr && PyCFunction_Check(function) ? function : nullptr;
}

// Null for whatever pybind11 has not made.
const function_record* record_of(PyObject* function) {
  PyObject* self = function == nullptr ? nullptr : PyCFunction_GET_SELF(function);
  return self == nullptr ? nullptr : py::detail::function_record_ptr_from_PyObject(self);
}

// Of overloads the one with most names: the others are for pickles and C++.
const function_record& shown_overload(const function_record& first) {
  const function_record* most = &first;
  for (const function_record* f = first.next; f != nullptr; f = f->next)
    if (f->args.size() > most->args.size()) most = f;
  return *most;
}

std::string arguments(const function_record& f) {
  std::string list = "(";
  const auto next = [&]() -> std::string& { return list.size() == 1 ? list : list += ", "; };
  const std::size_t named = f.nargs - (f.has_args ? 1u : 0u) - (f.has_kwargs ? 1u : 0u);
  for (std::size_t i = 0; i < named; ++i) {
    if (i == f.nargs_pos) next() += f.has_args ? "*args" : "*";
    const argument_record* a = i < f.args.size() && f.args[i].name != nullptr ? &f.args[i] : nullptr;
    if (a != nullptr) next() += a->name;
    else if (i == 0 && f.is_method) next() += "self";
    else next() += "arg" + std::to_string(i - (f.is_method ? 1 : 0));
    if (a != nullptr && a->descr != nullptr) (list += '=') += a->descr;
    if (f.nargs_pos_only == i + 1 || (f.args.empty() && i + 1 == named)) next() += "/";
  }
  if (f.has_args && named <= f.nargs_pos) next() += "*args";
  if (f.has_kwargs) next() += "**kwargs";
  return list += ')';
}

char* text_signature(const char* name, const function_record& f) {
  std::string doc = name + arguments(f) + "\n--\n\n";
  if (f.doc != nullptr) doc += f.doc;
  return strdup(doc.c_str());  // pybind11 frees it as its own
}

void show(py::handle callable) {
  PyObject* function = function_of(callable);
  const function_record* first = record_of(function);
  if (first == nullptr || first->name == nullptr || *first->name == '\0') return;  // a property's has no name
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  std::free(const_cast<char*>(definition->ml_doc));
  definition->ml_doc = text_signature(first->name, shown_overload(*first));
}

// A layer is called with the arguments of its forward: __call__ of each class that defines one says so.
void show_call(py::handle cls, py::handle call, py::handle forward) {
  static std::deque<PyMethodDef> definitions;  // live as long as the functions
  PyObject *function = function_of(call), *shown = function_of(forward);
  if (record_of(function) == nullptr || record_of(shown) == nullptr) return;
  PyMethodDef definition = *reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  definition.ml_doc = text_signature("__call__", shown_overload(*record_of(shown)));
  definitions.push_back(definition);
  const auto copy = py::reinterpret_steal<py::object>(PyCFunction_NewEx(
      &definitions.back(), PyCFunction_GET_SELF(function), reinterpret_cast<PyCFunctionObject*>(function)->m_module));
  cls.attr("__call__") = py::reinterpret_steal<py::object>(PyInstanceMethod_New(copy.ptr()));
}

// A class that only functions make is called with nothing.
void show_without_constructor(PyTypeObject* type) {
  const char* dot = std::strrchr(type->tp_name, '.');
  const std::string doc = std::string(dot == nullptr ? type->tp_name : dot + 1) + "()\n--\n\n" +
                          (type->tp_doc == nullptr ? "" : type->tp_doc);
  auto* memory = static_cast<char*>(PyObject_Malloc(doc.size() + 1));
  if (memory == nullptr) return;
  std::memcpy(memory, doc.c_str(), doc.size() + 1);
  PyObject_Free(const_cast<char*>(type->tp_doc));
  type->tp_doc = memory;
}

py::list typed_signatures(py::handle callable) {
  py::list found;
  for (const function_record* f = record_of(function_of(callable)); f != nullptr; f = f->next)
    found.append(std::string(f->name == nullptr ? "" : f->name) + f->signature);
  return found;
}

}  // namespace

void show_signatures(py::module_& m) {
  m.def("_typed_signatures", &typed_signatures, py::arg("function"),
        "Signatures with the types of the bindings, one for each overload; for tools/stubs.py.");
  const py::dict names = m.attr("__dict__");
  const py::handle call = names["Module"].attr("__dict__")["__call__"];
  for (const auto& [name, value] : names) {
    show(value);
    if (!PyType_Check(value.ptr())) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    const auto members = py::reinterpret_borrow<py::dict>(type->tp_dict);
    for (const auto& [own, member] : members) show(member);
    if (members.contains("forward") && PyObject_IsSubclass(value.ptr(), names["Module"].ptr()) == 1 &&
        !value.is(names["Module"]))
      show_call(value, call, members["forward"]);
    if (!members.contains("__init__") || record_of(function_of(members["__init__"])) == nullptr)
      show_without_constructor(type);
  }
}

}  // namespace qkv::bindings
