// What the garbage collector sees of a module: its dict, once, and the Python objects among its parts, which C++ holds.
//
// pybind11's own traverse shows the dict of a Python subclass twice in Python 3.11 (the subclass's has shown it
// already) and no parts, so that a cycle through either looks as if others held it, and is never freed.
#include <algorithm>
#include <vector>

#include "bindings/call/pybind11_private.h"
#include "bindings/modules/entries.h"
#include "bindings/values/class.h"

namespace qkv::bindings {
namespace {

struct Search {
  std::vector<PyObject*> wanted;  // sorted
  std::vector<PyObject*> found;
};

int search(PyObject* object, void* argument) {
  auto& s = *static_cast<Search*>(argument);
  if (std::binary_search(s.wanted.begin(), s.wanted.end(), object)) s.found.push_back(object);
  if (!PyDict_CheckExact(object)) return 0;
  Py_ssize_t position = 0;
  for (PyObject *key, *value; PyDict_Next(object, &position, &key, &value) != 0;)
    if (std::binary_search(s.wanted.begin(), s.wanted.end(), value)) s.found.push_back(value);
  return 0;
}

// One module whose parts live and die with the object that is traversed, and its Python object if it has one.
struct Owned {
  const Module* module;
  PyObject* object;
};

// Shows the Python objects among the parts of `root`. Only what nothing but `root` holds may be shown: a part that is
// registered once, below modules of which that is true too. A module written in C++ may also be held by its Python
// object; then that must be held by its owner's alone.
int visit_parts(const Owned& root, visitproc visit, void* arg) {
  std::vector<Owned> waiting{root};
  std::vector<Owned> wrapped;
  Search search_for;
  while (!waiting.empty()) {
    const Owned owner = waiting.back();
    waiting.pop_back();
    wrapped.clear();
    search_for = {};
    for (const Module::Entry& entry : owner.module->entries()) {
      if (!entry.module || entry.module->owners() != 1) continue;
      // A part that is a Python subclass is kept by a shared_ptr that holds one reference to the Python object.
      if (const py::handle object = derived_object(*entry.module)) {
        Py_VISIT(object.ptr());
        continue;
      }
      if (entry.module->entries().empty()) continue;
      const Module& part = *entry.module;
      PyObject* object = existing_object(dynamic_cast<const void*>(&part), typeid(part));
      if (object == nullptr) {
        waiting.push_back({entry.module.get(), nullptr});
      } else if (owner.object != nullptr && Py_REFCNT(object) == 1) {
        wrapped.push_back({entry.module.get(), object});
        search_for.wanted.push_back(object);
      }
    }
    if (wrapped.empty()) continue;
    std::sort(search_for.wanted.begin(), search_for.wanted.end());
    Py_TYPE(owner.object)->tp_traverse(owner.object, search, &search_for);
    for (const Owned& part : wrapped)
      if (std::find(search_for.found.begin(), search_for.found.end(), part.object) != search_for.found.end())
        waiting.push_back(part);
  }
  return 0;
}

}  // namespace

int traverse_module(PyObject* self, visitproc visit, void* arg) {
  PyTypeObject* type = Py_TYPE(self);
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
  if (type->tp_traverse == traverse_module)  // a subclass's own has shown the dict, in this version
#endif
  {
#if PY_VERSION_HEX >= 0x030D0000
    if (const int stop = PyObject_VisitManagedDict(self, visit, arg); stop != 0) return stop;
#elif PY_VERSION_HEX >= 0x030C0000
    if (const int stop = _PyObject_VisitManagedDict(self, visit, arg); stop != 0) return stop;
#else
    if (PyObject** dict = _PyObject_GetDictPtr(self); dict != nullptr) Py_VISIT(*dict);
#endif
  }
  Py_VISIT(type);
  if (visit == search || !is_initialised(self)) return 0;
  try {
    const Module& module = py::handle(self).cast<const Module&>();
    // A Python subclass is held through its Python object alone; a class of C++ may be a part of a module in C++.
    if (!module.entries().empty() && (derived_object(module) || module.owners() == 0))
      return visit_parts({&module, self}, visit, arg);
  } catch (const std::bad_alloc&) {  // shown next time
  }
  return 0;
}

}  // namespace qkv::bindings
