// What every class that Python sees has beside its methods.
#pragma once

#include <type_traits>

#include "bindings/values/operation.h"

namespace qkv::bindings {

// What the garbage collector sees of a module.
int traverse_module(PyObject* self, visitproc visit, void* arg);

// The object itself or its `arguments`.
template <class Part, class T> const Part& part_of(const T& object) {
  if constexpr (std::is_base_of_v<Part, T>) return object;
  else return object.arguments;
}

template <class T, class... Options> class Class : public pybind11::class_<T, Options...> {
  using Base = pybind11::class_<T, Options...>;
  static constexpr bool kModule = std::is_base_of_v<nn::Module, T>;

 public:
  // Of objects of the class itself.
  using Holder = std::conditional_t<std::is_same_v<typename Base::holder_type, py::smart_holder>, std::unique_ptr<T>,
                                    typename Base::holder_type>;

  template <class... Extra>
  Class(pybind11::handle scope, const char* name, const Extra&... extra)
      : Base(scope, name, pybind11::custom_type_setup([](PyHeapTypeObject* made) {
               if (kModule) made->ht_type.tp_traverse = traverse_module;
               else made->ht_type.tp_getattro = get_or_suggest;  // modules find their parts by a __getattr__
             }),
             extra...) {
    class_of<T> = reinterpret_cast<PyTypeObject*>(this->ptr());
    finish_class(*this);
  }
  Class(pybind11::handle scope, const char* name, const std::string& doc) : Class(scope, name, doc.c_str()) {}

  template <Callable F> Class& def(std::string_view head, F&& f) { return def(head, "", std::forward<F>(f)); }
  template <Callable F> Class& def(std::string_view head, std::string_view doc, F&& f) {
    add_function(*this, bound<T>(head, *this, std::forward<F>(f), doc));
    return *this;
  }
  // What makes objects, for constructors (fields.h).
  ConstructedBy constructor() {
    if (pybind11_init<T> == nullptr) {
      const auto make = [](auto* holder, std::uintptr_t construction, bool derived) {
        make_for_pybind11(construction, holder, derived);
      };
      const auto made = [make](std::uintptr_t construction) {
        Holder holder;
        make(&holder, construction, false);
        return holder;
      };
      const py::dict own = this->attr("__dict__");
      const py::object before = own.contains("__init__") ? py::object(own["__init__"]) : py::object();
      if constexpr (Base::has_alias)
        Base::def(py::init(made, [make](std::uintptr_t construction) {
          std::unique_ptr<typename Base::type_alias> holder;
          make(&holder, construction, true);
          return holder;
        }));
      else Base::def(py::init(made));
      pybind11_init<T> = py::object(this->attr("__init__")).release().ptr();
      if (before) this->attr("__init__") = before;
      else py::delattr(*this, "__init__");
    }
    return {pybind11_init<T>};
  }

  // A property that can be read, or written, too.
  template <Callable Get> Class& def_property(const char* name, Get&& get) {
    return def_property(name, "", std::forward<Get>(get));
  }
  template <Callable Get, class Set = std::nullptr_t>
  Class& def_property(const char* name, const char* doc, Get&& get, Set&& set = nullptr) {
    py::object setter = py::none();
    if constexpr (!std::is_null_pointer_v<std::remove_cvref_t<Set>>)
      setter = function_of(bound<T>(name, *this, std::forward<Set>(set), "value"_signature));
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
