// Calls whose arguments fit no signature. pybind11 answers with C++ signatures and the repr of every argument; here
// every bound function is entered through one that puts such an error into words: which argument, what it must be, what
// came.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "core/error.h"

namespace py = pybind11;

namespace qkv::bindings {
namespace {

using py::detail::argument_record;
using py::detail::function_record;
using Dispatcher = PyObject* (*)(PyObject*, PyObject* const*, size_t, PyObject*);

Dispatcher dispatcher = nullptr;  // pybind11's

std::string class_of(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

std::string short_class_of(py::handle value) {
  const std::string name = class_of(value);
  return name.substr(name.rfind('.') + 1);
}

// What was given for the arguments of a function, by position and by name.
struct Given {
  std::span<PyObject* const> positional;
  std::span<PyObject* const> named;
  PyObject* names;  // tuple, or null

  std::string name(std::size_t i) const {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)));
    if (text == nullptr) PyErr_Clear();
    return text == nullptr ? "?" : text;
  }
  PyObject* find(std::string_view wanted) const {
    for (std::size_t i = 0; i < named.size(); ++i)
      if (name(i) == wanted) return named[i];
    return nullptr;
  }
};

// "Linear" for a constructor and a call of a layer, "Linear.load_state_dict", "softmax".
std::string called(const function_record& function, const Given& given) {
  const std::string name = function.name;
  if (!function.is_method) return name;
  std::string owner = given.positional.empty() ? "" : short_class_of(given.positional[0]);
  if (function.is_constructor && function.scope) owner = py::str(function.scope.attr("__name__"));
  if (owner.empty()) return name;
  return function.is_constructor || name == "forward" || name == "__call__" ? owner : owner + "." + name;
}

// The annotations of a signature "(self: A, x: int, y: str = 'a') -> B", one for each argument.
std::vector<std::string> annotations(const char* signature) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char* c = std::strchr(signature, '('); c != nullptr && *c != 0; ++c) {
    if (*c == '(' || *c == '[') ++depth;
    if (*c == ')' || *c == ']') --depth;
    if (depth == 0) break;
    if (*c == ',' && depth == 1) parts.emplace_back();
    else if (!(*c == '(' && depth == 1)) parts.back() += *c;
  }
  std::vector<std::string> found;
  for (const std::string& part : parts) {
    const std::size_t colon = part.find(": "), begin = colon == std::string::npos ? 0 : colon + 2;
    if (colon == std::string::npos) continue;  // "*" and "/"
    found.push_back(part.substr(begin, part.find(" = ", begin) - begin));
  }
  return found;
}

struct Expected {
  std::string words;           // what the argument must be
  bool (*accepts)(PyObject*);  // null: cannot be told
};

bool is_number(PyObject* p) {
  return PyFloat_Check(p) || PyIndex_Check(p) || (PyNumber_Check(p) && !PyComplex_Check(p));
}

bool fits_integer(PyObject* p) {
  if (!PyIndex_Check(p)) return false;
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(p));
  int overflow = 0;
  if (number) PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  PyErr_Clear();
  return number && overflow == 0;
}

Expected expected_of(const std::string& annotation) {
  const auto starts = [&](const char* word) { return annotation.rfind(word, 0) == 0; };
  if (starts("typing.SupportsInt") || starts("int")) return {"an integer of 64 bits", fits_integer};
  if (starts("typing.SupportsFloat") || starts("float")) return {"a number", is_number};
  if (starts("bool")) return {"True or False", [](PyObject* p) { return PyBool_Check(p) != 0; }};
  if (starts("str")) return {"a string", [](PyObject* p) { return PyUnicode_Check(p) != 0; }};
  if (starts("type")) return {"a class", [](PyObject* p) { return PyType_Check(p) != 0; }};
  if (starts("dict")) return {"a dict", [](PyObject* p) { return PyDict_Check(p) != 0; }};
  if (starts("list") || starts("collections.abc.Sequence")) return {"a list", nullptr};
  if (starts("tuple")) return {"a tuple", nullptr};
  if (starts("collections.abc.Callable")) return {"a function", [](PyObject* p) { return PyCallable_Check(p) != 0; }};
  if (starts("numpy.") || starts("typing.Annotated[numpy")) return {"an array", nullptr};
  if (starts("object")) return {"an object", [](PyObject*) { return true; }};
  std::string name = annotation.substr(0, annotation.find(" |"));
  return {"a " + name.substr(name.rfind('.') + 1), nullptr};
}

// Whether the argument is surely wrong (2), may be (1), or is not (0).
int suspicion(const std::string& annotation, const Expected& expected, PyObject* value) {
  if (value == Py_None)
    return annotation.find("None") != std::string::npos || annotation.rfind("object", 0) == 0 ? 0 : 2;
  if (expected.accepts != nullptr) return expected.accepts(value) ? 0 : 2;
  return expected.words.ends_with(" " + short_class_of(value)) ? 0 : 1;
}

std::string shown(PyObject* value, const Expected& expected) {
  if (value == Py_None) return "None";
  if (expected.accepts == fits_integer && PyLong_Check(value)) return "an integer of more bits";
  return short_class_of(value);
}

// Why the number or the names of the arguments do not fit, in Python's words (qkv._errors.misfit), or nothing.
std::optional<std::string> misfit(const function_record& function, const Given& given, const std::string& operation) {
  const std::size_t own = function.is_method ? 1 : 0;
  py::list parameters;
  for (const argument_record& a : function.args)
    if (a.name != nullptr && std::strcmp(a.name, "self") != 0) parameters.append(py::make_tuple(a.name, !a.value));
  const py::object most = function.has_args ? py::object(py::none()) : py::int_(function.nargs_pos - own);
  py::tuple names(given.named.size());
  for (std::size_t i = 0; i < given.named.size(); ++i) names[i] = given.name(i);
  const py::object text = callback("misfit")(operation, parameters, most, function.has_kwargs,
                                             std::max(given.positional.size(), own) - own, names);
  if (text.is_none()) return {};
  return text.cast<std::string>();
}

std::string explain(const function_record& function, const Given& given) {
  const std::string operation = called(function, given);
  const std::size_t own = function.is_method ? 1 : 0;
  if (own == 1 && given.positional.empty()) return text(operation, ": must be called on an object; got no arguments");
  if (own == 1 && function.scope && PyType_Check(function.scope.ptr()) &&
      !PyObject_TypeCheck(given.positional[0], reinterpret_cast<PyTypeObject*>(function.scope.ptr())))
    return text(function.name, ": must be called on a ", std::string(py::str(function.scope.attr("__name__"))),
                "; got ", short_class_of(given.positional[0]));

  if (const auto problem = misfit(function, given, operation)) return *problem;

  const std::vector<std::string> types = annotations(function.signature);
  std::string first_suspect;
  const std::size_t count = function.nargs - (function.has_args ? 1 : 0) - (function.has_kwargs ? 1 : 0);
  for (std::size_t i = own; i < count; ++i) {
    const argument_record* record = i < function.args.size() ? &function.args[i] : nullptr;
    const std::string name =
        record != nullptr && record->name != nullptr ? record->name : text("argument ", i + 1 - own);
    PyObject* value = i < given.positional.size() ? given.positional[i] : given.find(name);
    if (value == nullptr && record != nullptr && record->value) continue;
    if (value == nullptr) return text(operation, ": ", name, " must be given");
    const std::string annotation = i < types.size() ? types[i] : "object";
    const Expected expected = expected_of(annotation);
    const int level = suspicion(annotation, expected, value);
    const std::string problem =
        text(operation, ": ", name, " must be ", expected.words, "; got ", shown(value, expected));
    if (level == 2) return problem;
    if (level == 1 && first_suspect.empty()) first_suspect = problem;
  }
  if (!first_suspect.empty()) return first_suspect;
  std::string classes;
  for (std::size_t i = own; i < given.positional.size(); ++i)
    classes += (classes.empty() ? "" : ", ") + short_class_of(given.positional[i]);
  for (std::size_t i = 0; i < given.named.size(); ++i)
    classes += (classes.empty() ? "" : ", ") + given.name(i) + "=" + short_class_of(given.named[i]);
  return text(operation, ": arguments must be of other types; got (", classes, ")");
}

// Errors of pybind11 and of number conversions get our words; those of Python code (they have a traceback) and our own
// stay as they are.
void reword(const function_record& function, const Given& given) {
  py::error_scope scope;
  PyObject *type = scope.type, *value = scope.value;
  if (type == nullptr || (scope.trace != nullptr && scope.trace != Py_None)) return;
  const auto is = [&](PyObject* error) { return PyErr_GivenExceptionMatches(type, error) != 0; };
  if (!is(PyExc_TypeError) && !is(PyExc_RuntimeError) && !is(PyExc_OverflowError)) return;
  std::string message;
  if (value != nullptr) {
    const auto shown = py::reinterpret_steal<py::object>(PyObject_Str(value));
    const char* utf8 = shown ? PyUnicode_AsUTF8(shown.ptr()) : nullptr;
    message = utf8 == nullptr ? "" : utf8;
    PyErr_Clear();
  }
  const auto contains = [&](const char* words) { return message.find(words) != std::string::npos; };
  const auto replace = [&](PyObject* error, const std::string& words) {
    Py_XDECREF(scope.type);
    Py_XDECREF(scope.value);
    Py_XDECREF(scope.trace);
    PyErr_SetString(error, words.c_str());
    PyErr_Fetch(&scope.type, &scope.value, &scope.trace);
  };
  if (is(PyExc_TypeError) && (contains("(): incompatible ") || contains("called with invalid or missing `self`")))
    replace(PyExc_TypeError, explain(function, given));
  else if (is(PyExc_TypeError) && contains("Unable to convert function return value"))
    replace(PyExc_TypeError, called(function, given) + ": the result has no type of Python");
  else if (is(PyExc_RuntimeError) && contains("Unable to cast"))
    replace(PyExc_TypeError, called(function, given) + ": an argument holds something of a type that it must not have");
  else if (is(PyExc_TypeError) && contains("is not an instance of '"))
    replace(PyExc_TypeError, called(function, given) + ": an argument is wrong; " + message);
  else if (is(PyExc_OverflowError) && (contains("too large") || contains("too big")))
    replace(PyExc_ValueError, called(function, given) + ": a number is too large; " + message);
}

PyObject* enter(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* names) {
  PyObject* result = dispatcher(self, arguments, flags, names);
  if (result != nullptr) [[likely]]
    return result;
  try {
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    const std::size_t named = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    reword(*py::detail::function_record_ptr_from_PyObject(self),
           {{arguments, count}, {arguments + count, named}, names});
  } catch (...) {  // no memory for words: the error stays
  }
  return nullptr;
}

void redirect(py::handle callable) {
  if (!callable) return;
  const py::handle function = py::detail::get_function(callable);
  if (!PyCFunction_Check(function.ptr())) return;
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  PyObject* self = PyCFunction_GET_SELF(function.ptr());
  if (self == nullptr || py::detail::function_record_ptr_from_PyObject(self) == nullptr) return;
  const auto entry = reinterpret_cast<Dispatcher>(reinterpret_cast<void (*)()>(definition->ml_meth));
  if (entry == enter || definition->ml_flags != (METH_FASTCALL | METH_KEYWORDS)) return;
  dispatcher = entry;
  definition->ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(enter));
}

// For classes that are not made by calling them.
int refuse_construction(PyObject* self, PyObject*, PyObject*) {
  const std::string name = short_class_of(self);
  const char* how = name == "Tensor"           ? "by qkv.tensor(data)"
                    : name == "ParameterGroup" ? "by optimizer.add_param_group({...})"
                                               : "by calling a class derived from it";
  PyErr_SetString(PyExc_TypeError, text(name, ": must be made ", how, "; got a call of the class").c_str());
  return -1;
}

}  // namespace

void reword_rejections(const py::module_& m) {
  const auto* root = reinterpret_cast<PyTypeObject*>(py::detail::get_internals().instance_base);
  for (const auto& [name, value] : m.attr("__dict__").cast<py::dict>()) {
    redirect(value);
    if (!PyType_Check(value.ptr())) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (type->tp_init == root->tp_init) type->tp_init = refuse_construction;
    for (const auto& [own, member] : py::reinterpret_borrow<py::dict>(type->tp_dict)) {
      redirect(member);
      if (!PyObject_TypeCheck(member.ptr(), &PyProperty_Type)) continue;
      redirect(member.attr("fget"));
      redirect(member.attr("fset"));
    }
  }
}

}  // namespace qkv::bindings
