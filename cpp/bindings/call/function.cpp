#include "bindings/call/function.h"

#include <pybind11/eval.h>

#include <algorithm>
#include <stdexcept>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

#include "bindings/call/errors.h"
#include "bindings/call/interpreter.h"
#include "core/error.h"

namespace qkv::bindings {

using Role = Parameter::Role;

namespace {

// Parts of a list, at the commas outside of brackets.
std::vector<std::string> parts_of_list(std::string_view list) {
  std::vector<std::string> parts(list.empty() ? 0 : 1);
  int depth = 0;
  for (const char c : list) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) parts.emplace_back();
    else if (c != ' ' || !parts.back().empty()) parts.back() += c;
  }
  return parts;
}

}  // namespace

py::tuple tuple_of(std::span<PyObject* const> values) {
  py::tuple made(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i]));
  return made;
}

void Signature::add_name(const std::string& given, py::object fallback) {
  while (named_ < parameters.size() && parameters[named_].role != Role::named) ++named_;
  if (named_ == parameters.size()) throw std::logic_error(name + ": has fewer parameters than names");
  Parameter& p = parameters[named_++];
  p.name = py::reinterpret_steal<py::object>(PyUnicode_InternFromString(given.c_str()));
  p.fallback = std::move(fallback);
}

std::size_t count_of(SignatureText names) {
  const auto all = parts_of_list(names.text);
  return all.size() - static_cast<std::size_t>(std::count(all.begin(), all.end(), "*"));
}

void Signature::take(SignatureText names) {
  for (const std::string& one : parts_of_list(names.text)) {
    const std::size_t equal = one.find('=');
    if (one == "*") positional = named_;
    else if (equal == one.npos) add_name(one, {});
    else add_name(one.substr(0, equal), py::eval(one.substr(equal + 1), py::dict()));
  }
}

void Signature::finish() {
  const std::size_t own = owner ? 1 : 0;
  if (named_ > own)
    for (const Parameter& p : parameters)
      if (p.role == Role::named && p.name.is_none()) throw std::logic_error(name + ": a parameter has no name");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].role != Role::named) positional = std::min(positional, i);
  positional = std::min(positional, parameters.size());
}

const Signature& Signature::widest() const {
  const Signature* most = this;
  for (const Signature* s = next.get(); s != nullptr; s = s->next.get())
    if (s->parameters.size() > most->parameters.size()) most = s;
  return *most;
}

std::string Signature::shown(bool typed) const {
  std::string list = "(";
  const auto add = [&](const std::string& words) { list += (list.size() == 1 ? "" : ", ") + words; };
  bool star = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.role == Role::rest) star = true;
    if (i == positional && !star && p.role == Role::named) {
      add("*");
      star = true;
    }
    if (p.role != Role::named) {
      add(p.role == Role::rest ? "*args" : "**kwargs");
      continue;
    }
    const std::size_t own = owner ? 1 : 0;
    add(p.name.is_none() ? text("arg", i - own) : std::string(py::str(p.name)));
    if (typed && !(own == 1 && i == 0)) list += ": " + p.kind();
    if (p.fallback) list += (typed ? " = " : "=") + std::string(py::repr(p.fallback));
    if (p.name.is_none() && i + 1 == positional) add("/");
  }
  list += ')';
  return typed ? list + " -> " + (constructor ? "None" : result()) : list;
}

bool Signature::fill(PyObject* const* arguments, Py_ssize_t count, PyObject* names, PyObject** values,
                     std::array<py::object, 2>& made) const {
  const auto given = static_cast<std::size_t>(count), total = parameters.size();
  const std::size_t taken = std::min(given, positional);
  const std::size_t named = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
  std::copy_n(arguments, taken, values);
  std::fill(values + taken, values + total, nullptr);
  for (std::size_t k = 0; k < named; ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k));
    std::size_t place = 0;
    while (place < total && parameters[place].name.ptr() != name) ++place;
    if (place == total)  // both are interned, except for **{...} of made-up strings
      for (place = 0; place < total; ++place)
        if (!parameters[place].name.is_none() && PyUnicode_Compare(parameters[place].name.ptr(), name) == 0) break;
    if (place < total) {
      if (values[place] != nullptr) return false;
      values[place] = arguments[given + k];
    } else if (total > 0 && parameters.back().role == Role::keywords) {
      if (!made[1]) made[1] = py::dict();
      if (PyDict_SetItem(made[1].ptr(), name, arguments[given + k]) != 0) throw py::error_already_set();
    } else {
      return false;
    }
  }
  bool rest = false;
  for (std::size_t i = taken; i < total; ++i) {
    if (values[i] != nullptr) continue;
    const Parameter& p = parameters[i];
    if (p.role == Role::rest) {
      rest = true;
      made[0] = tuple_of({arguments + taken, given - taken});
      values[i] = made[0].ptr();
    } else if (p.role == Role::keywords) {
      if (!made[1]) made[1] = py::dict();
      values[i] = made[1].ptr();
    } else if (p.fallback) {
      values[i] = p.fallback.ptr();
    } else {
      return false;
    }
  }
  return given == taken || rest;
}

namespace {

struct CallArguments {
  std::span<PyObject* const> positional;
  PyObject* names;  // tuple, or null
};

// "Linear" for a constructor and a call of a layer, "Linear.load_state_dict", "softmax".
std::string called(const Signature& s, const CallArguments& given) {
  if (!s.owner) return s.name;
  const bool unbound = s.constructor || given.positional.empty();
  const std::string owner = unbound ? std::string(py::str(s.owner.attr("__name__"))) : type_name(given.positional[0]);
  return s.constructor || s.name == "forward" || s.name == "__call__" ? owner : owner + "." + s.name;
}

bool is_self(const Signature& s, const CallArguments& given) {
  return !given.positional.empty() && PyObject_IsInstance(given.positional[0], s.owner.ptr()) == 1;
}

// Which argument of a call has a type that does not fit; none: the number or the names of all do not.
struct Mismatch {
  std::size_t argument = Signature::kNone;
  PyObject* value = nullptr;
};

// In Python's words (qkv._errors).
std::string refusal(const Signature& s, const CallArguments& given, PyObject* function, const Mismatch& mismatch) {
  const std::string operation = called(s, given);
  if (s.owner && given.positional.empty()) return operation + ": must be called on an object; got no arguments";
  if (s.owner && !is_self(s, given))
    return text(s.name, ": must be called on a ", std::string(py::str(s.owner.attr("__name__"))), "; got ",
                type_name(given.positional[0]));
  if (mismatch.argument == Signature::kNone) {
    const py::tuple positional = tuple_of(given.positional);
    const auto names = given.names == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(given.names);
    const py::object words = callback("refusal")(py::handle(function), positional, names, operation);
    return words.is_none() ? operation + ": takes no arguments of these types" : std::string(py::str(words));
  }
  const Parameter& p = s.parameters[mismatch.argument];
  const py::object name =
      p.name.is_none() ? py::str("argument {}").format(mismatch.argument + (s.owner ? 0 : 1)) : p.name;
  return py::str(callback("wrong_type")(operation, name, p.kind(), py::handle(mismatch.value)));
}

// Null: this signature does not fit.
PyObject* call_one(const Signature& s, const CallArguments& given, PyObject* const* arguments, PyObject* function,
                   Mismatch& mismatch) {
  std::array<PyObject*, Signature::kMost> values;
  std::array<py::object, 2> made;
  mismatch = {};
  if (!s.fill(arguments, static_cast<Py_ssize_t>(given.positional.size()), given.names, values.data(), made))
    return nullptr;
  std::size_t failed = Signature::kNone;
  PyObject* result = nullptr;
  if (!s.constructor) [[likely]] {
    result = s.invoke(s, values.data(), failed);
  } else {
    if (!is_self(s, given)) fail_type(refusal(s, given, function, {}));
    const bool constructed = construct(s.constructor, given.positional[0], [&](const NewObject& place) {
      values[0] = reinterpret_cast<PyObject*>(const_cast<NewObject*>(&place));
      return s.invoke(s, values.data(), failed) != nullptr;
    });
    if (constructed) result = Py_NewRef(Py_None);
  }
  if (result != nullptr) [[likely]]
    return result;
  if (failed == Signature::kNone) {
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    fail_type(called(s, given), ": the result has no type of Python");
  }
  PyErr_Clear();
  mismatch = {failed, values[failed]};
  return nullptr;
}

}  // namespace

PyObject* call(const Signature& first, PyObject* function, PyObject* const* arguments, Py_ssize_t count,
               PyObject* names) {
  const CallArguments given{{arguments, static_cast<std::size_t>(count)}, names};
  const auto set = [&](PyObject* error, const std::string& words) {
    PyErr_SetString(error, (called(first, given) + words).c_str());
  };
  try {
    const Signature& shown = first.next ? first.widest() : first;
    Mismatch mismatch, other;
    for (const Signature* s = &first; s != nullptr; s = s->next.get())
      if (PyObject* result = call_one(*s, given, arguments, function, s == &shown ? mismatch : other);
          result != nullptr)
        return result;
    PyErr_SetString(PyExc_TypeError, refusal(shown, given, function, mismatch).c_str());
  } catch (py::error_already_set& error) {
    // A number that Python's own conversion finds too large; what code in Python raises has a traceback.
    if (!error.matches(PyExc_OverflowError) || error.trace()) error.restore();
    else set(PyExc_ValueError, ": a number is too large; " + std::string(py::str(error.value())));
  } catch (const py::cast_error&) {
    set(PyExc_TypeError, ": an argument holds something of a type that it must not have");
  } catch (const py::type_error& error) {
    set(PyExc_TypeError, std::string(": an argument is wrong; ") + error.what());
#if defined(__GLIBCXX__)
  } catch (abi::__forced_unwind&) {
    throw;
#endif
  } catch (...) {
    set_error();
  }
  return nullptr;
}

}  // namespace qkv::bindings
