// Constructors, and those whose parameters are the fields of options, each by its name.
#pragma once

#include "bindings/values/operation.h"
#include "nn/multi_head_attention.h"

namespace qkv::bindings {

// None or a dict of the fields that are not the defaults.
std::optional<nn::RelativeBias> relative_bias_from(Call& call, py::handle value, const char* name = "relative_bias");
// None or a dict with Hugging Face's names, of which those that the rule does not know are ignored as there.
ops::RotaryScaling rotary_scaling_from(Call& call, py::handle value, const char* name = "rotary_scaling");
// None or a dict of strings.
nn::PartNames part_names_from(Call& call, py::handle value, const char* name);

template <> struct Argument<nn::PartNames> : Argument<As<part_names_from>> {};
template <> struct Argument<std::optional<nn::RelativeBias>> : Argument<As<relative_bias_from>> {};
template <> struct Argument<ops::RotaryScaling> : Argument<As<rotary_scaling_from>> {};
template <> struct Argument<nn::NormKind> : Argument<As<nn::norm_named>> {};
template <> struct Argument<ops::Normalizer> : Argument<As<ops::normalizer_named>> {};
inline std::optional<nn::NormKind> norm_or_none(Call& call, py::handle value, const char* name) {
  return value.is_none() ? std::nullopt : std::optional(converted<nn::norm_named>(call, value, name));
}
template <> struct Argument<std::optional<nn::NormKind>> : Argument<As<norm_or_none>> {
  static std::string kind() { return kind_of<std::optional<std::string>>(); }
};

template <class Options> struct Fields {
  Options value = {};
  operator const Options&() const { return value; }  // NOLINT(google-explicit-constructor)
  static void describe(Parameter& p, std::string_view name) {
    Options all;
    for_fields(all, [&]<class T>(std::string_view field, T& member) {
      if (name != field) return;
      p.kind = Argument<T>::kind;
      p.offset = reinterpret_cast<char*>(&member) - reinterpret_cast<char*>(&all);
      p.load = [](void* place, Call& call, PyObject* given, const char* named) {
        Argument<T> argument;
        if (!argument.load(call, given, named)) return false;
        *static_cast<T*>(place) = argument.get();
        return true;
      };
      if constexpr (std::equality_comparable<T> && !std::is_base_of_v<py::handle, T>) {
        Call call("");
        T standard{};
        p.is_default = p.fallback && p.load(&standard, call, p.fallback.ptr(), "") && standard == member;
      }
    });
    if (p.load == nullptr) throw std::logic_error(text("no field ", name));
  }
  std::size_t take(Call& call, PyObject* const* values, std::span<const Parameter> parameters) {
    std::size_t i = 0;
    for (auto* all = reinterpret_cast<char*>(&value); i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      if (p.is_default && values[i] == p.fallback.ptr()) continue;
      if (!p.load(all + p.offset, call, values[i], PyUnicode_AsUTF8(p.name.ptr()))) break;
    }
    return i;
  }
};

// Makes an object, of the class or of those derived from it in Python, by the constructor that takes what `arguments`
// makes of those of the call: a tuple. nullptr: those themselves. Or what it makes of them and of the type of the
// object is a pointer that holds it.
template <class Class, class Arguments, class... A> struct Constructor {
  template <class T> using Passed = decltype(std::declval<Argument<T>&>().get());
  Arguments arguments;
  void operator()(const NewObject& place, Passed<A>... given, Call& call) const {
    const auto construct = [&]<class Made, class Holder>(std::type_identity<Made> type, Holder* holder) {
      if constexpr (std::is_invocable_v<const Arguments&, std::type_identity<Made>, Passed<A>...>) {
        *holder = arguments(type, std::forward<Passed<A>>(given)...);
      } else {
        const auto make = [](auto&&... all) { return std::make_unique<Made>(std::forward<decltype(all)>(all)...); };
        if constexpr (std::is_null_pointer_v<Arguments>) *holder = make(std::forward<Passed<A>>(given)...);
        else if constexpr (std::is_invocable_v<const Arguments&, Passed<A>..., Call&>)
          *holder = std::apply(make, arguments(std::forward<Passed<A>>(given)..., call));
        else *holder = std::apply(make, arguments(std::forward<Passed<A>>(given)...));
      }
      if constexpr (std::is_base_of_v<Trampoline, Made>) (*holder)->object = place.object;
    };
    (void)call;
    if constexpr (Class::has_alias) {
      using Derived = typename Class::type_alias;
      if (place.derived)
        return construct(std::type_identity<Derived>(), static_cast<std::unique_ptr<Derived>*>(place.holder));
    }
    construct(std::type_identity<typename Class::type>(), static_cast<typename Class::Holder*>(place.holder));
  }
};

template <class... A, class Class, class Arguments = std::nullptr_t>
void def_init(Class& cls, std::string_view parameters, Arguments arguments = {}) {
  const std::string name = py::str(cls.attr("__name__"));
  add_function(cls, operation<true, NewObject, A...>(cls, text(name, ": __init__(", parameters, ")"),
                                                     Constructor<Class, Arguments, A...>{std::move(arguments)},
                                                     cls.constructor()));
}

// Pickles hold what `get` makes of an object; `set` makes another one of that, of the type A.
template <class A, class Class, class Get, class Set> void def_pickle(Class& cls, Get get, Set set) {
  cls.def("__getstate__", get);
  const auto made = [set](auto, const A& state) { return set(state); };
  add_function(cls,
               operation<true, NewObject, Plain<const A&>>(
                   cls, "__setstate__", Constructor<Class, decltype(made), Plain<const A&>>{made}, cls.constructor()));
}

// Of the fields of options: their names, as "a, b", and the parameters that they are in Python, as ", a=0.0, b=None".
template <class Options> std::string names_of(const Options& options = {}) {
  std::string all;
  for_fields(options, [&](const char* name, const auto&) { all += text(all.empty() ? "" : ", ", name); });
  return all;
}
template <class Options> std::string parameters_of(const Options& options = {}) {
  std::string all;
  for_fields(options, [&](const char* name, const auto& value) {
    all += text(", ", name, "=", std::string(py::repr(py::cast(nn::value_of(value)))));
  });
  return all;
}

}  // namespace qkv::bindings
