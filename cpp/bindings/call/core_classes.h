// The classes of the core that Python sees, and how their objects are made.
//
// pybind11 makes the Python object first and the C++ object in __init__. Asked for the C++ object in between (a method
// before super().__init__(), after an __init__ that raised, on cls.__new__(cls)), conversions throw.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/trampoline_self_life_support.h>

#include <cstdint>
#include <functional>
#include <type_traits>

#include "autograd/tensor.h"
#include "core/random.h"
#include "nn/kv_cache.h"
#include "nn/module.h"

namespace py = pybind11;

namespace qkv::bindings {

// The classes that are bound, and those derived from them.
template <class T>
concept Bound = requires { sizeof(T); } && (std::is_base_of_v<nn::Module, T> || std::is_base_of_v<TensorImpl, T> ||
                                            std::is_base_of_v<nn::KVCache, T> || std::is_base_of_v<Generator, T>);

// Python's class of T; null: it has none.
template <class T> inline constinit PyTypeObject* class_of = nullptr;

// The class of the core that this class is, or is derived from; null if there is none, or several.
PyTypeObject* core_class(PyTypeObject* type);

// A TypeError that names the object's class.
[[noreturn]] void fail_uninitialised(py::handle object);
// The same if an object of T's class lacks its C++ object; nothing for objects of other classes.
void check_initialised(py::handle object, bool derived);
template <class T> void check_initialised(py::handle object) {
  const PyTypeObject* type = Py_TYPE(object.ptr());
  if (class_of<T> != nullptr && PyObject_TypeCheck(object.ptr(), class_of<T>))
    check_initialised(object, type != class_of<T>);
}

// A C++ object whose class Python derives from: it knows its object of Python's, which lives as long.
struct Trampoline : py::trampoline_self_life_support {
  py::handle object;
};
// Python's object for a module whose class is derived in Python; null for others.
inline py::handle derived_object(const nn::Module& module) {
  const auto* known = dynamic_cast<const Trampoline*>(&module);
  return known == nullptr ? py::handle() : known->object;
}

// Where __init__ puts what it makes.
struct NewObject {
  PyObject* object;      // Python's
  void* holder;          // a std::unique_ptr or the class's own holder, of Made
  bool derived = false;  // in Python: Made is then the class's Trampoline
};
// make(place), which says whether it has made something, called by what class.h lets pybind11 define as `__init__`;
// true if the object has its C++ object already.
bool construct(py::handle pybind11_init, py::handle object, const std::function<bool(const NewObject&)>& make);
void make_for_pybind11(std::uintptr_t construction, void* holder, bool derived);
// pybind11's `__init__` of T's class.
template <class T> inline constinit PyObject* pybind11_init = nullptr;

// When a class is made: `__class__` of an object stays within its class of the core, and a class that is not made by
// calling it says so.
void finish_class(py::handle cls);
// An attribute that an object lacks: the error says what was meant; one that it has costs nothing more.
PyObject* get_or_suggest(PyObject* self, PyObject* name);
// "'Linear' object has no attribute 'wieght'; did you mean weight?" as an AttributeError.
[[noreturn]] void fail_attribute(py::handle object, py::handle name);

}  // namespace qkv::bindings
