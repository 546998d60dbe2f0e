// What every class that Python sees has beside its methods.
#pragma once

#include <type_traits>

#include "bindings/operation.h"

namespace qkv::bindings {

// An attribute that an object has not is answered with what was meant, at the cost of none.
PyObject* get_or_suggest(PyObject* self, PyObject* name);
// "'Linear' object has no attribute 'wieght'; did you mean weight?" as an AttributeError.
[[noreturn]] void fail_attribute(py::handle object, py::handle name);
// What the garbage collector sees of a module.
int traverse_module(PyObject* self, visitproc visit, void* arg);
// When it is made: `__class__` of an object stays within its class of the core, and a class that is not made by calling
// it says so.
void finish_class(py::handle cls);

// The object itself or its `arguments`.
template <class Part, class T> const Part& part_of(const T& object) {
  if constexpr (std::is_base_of_v<Part, T>) return object;
  else return object.arguments;
}

template <class T, class... Options> class Class : public pybind11::class_<T, Options...> {
  using Base = pybind11::class_<T, Options...>;
  static constexpr bool kModule = std::is_base_of_v<nn::Module, T>;

 public:
  template <class... Extra>
  Class(pybind11::handle scope, const char* name, const Extra&... extra)
      : Base(scope, name, pybind11::custom_type_setup([](PyHeapTypeObject* made) {
               if (kModule) made->ht_type.tp_traverse = traverse_module;
               else made->ht_type.tp_getattro = get_or_suggest;  // modules find their parts by a __getattr__
             }),
             extra...) {
    finish_class(*this);
  }
  Class(pybind11::handle scope, const char* name, const std::string& doc) : Class(scope, name, doc.c_str()) {}

  template <Callable F> Class& def(std::string_view head, F&& f) { return def(head, "", std::forward<F>(f)); }
  template <Callable F> Class& def(std::string_view head, std::string_view doc, F&& f) {
    add_function(*this, bound<T>(head, *this, std::forward<F>(f), doc));
    return *this;
  }
  // As pybind11 makes constructors.
  template <Callable F, class... Extra>
  Class& def(std::string_view name, F&& f, py::detail::is_new_style_constructor constructor, const Extra&... extra) {
    add_function(*this, bound<T>(name, *this, std::forward<F>(f), constructor, extra...));
    return *this;
  }
  template <Callable F> Class& def(std::string_view name, F&& f, py::pos_only) { return def(name, std::forward<F>(f)); }
  // py::init or py::pickle.
  template <Callable Init, class... Extra> Class& def(Init&& init, const Extra&... extra) {
    std::forward<Init>(init).execute(*this, extra...);
    return *this;
  }

  // A property that can be read, or written, too.
  template <Callable Get> Class& def_property(const char* name, Get&& get) {
    return def_property(name, "", std::forward<Get>(get));
  }
  template <Callable Get, class Set = std::nullptr_t>
  Class& def_property(const char* name, const char* doc, Get&& get, Set&& set = nullptr) {
    py::object setter = py::none();
    if constexpr (!std::is_null_pointer_v<std::remove_cvref_t<Set>>)
      setter = function_of(bound<T>(name, *this, std::forward<Set>(set), "value"_takes));
    const py::handle property(reinterpret_cast<PyObject*>(&PyProperty_Type));
    this->attr(name) = property(function_of(bound<T>(name, *this, std::forward<Get>(get))), setter, py::none(),
                                *doc == 0 ? py::object(py::none()) : py::str(doc));
    return *this;
  }
  // Members that can be read, of the object or of its `arguments`, under these names: "in_features, out_features".
  template <class... Of, class... Value> Class& def_readonly(std::string_view names, Value Of::*... members) {
    const auto add = [&]<class Owner, class Member>(Member Owner::* member) {
      const std::size_t end = std::min(names.find(','), names.size());
      def_property(std::string(names.substr(0, end)).c_str(),
                   [member](const T& self) -> const Member& { return part_of<Owner>(self).*member; });
      names.remove_prefix(std::min(end + 2, names.size()));
    };
    (add(members), ...);
    return *this;
  }
};

}  // namespace qkv::bindings
