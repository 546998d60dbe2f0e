// Functions and methods that compute with arrays. An argument is converted as its type in C++ says, what is computed
// runs without Python's lock, and results are what Call makes of them: Tensors where an argument was one, and from
// layers.
//
//   op(m, "softmax(x, axis, temperature)", ops::softmax);
//   op(m, "sort(x, axis, descending)", [](Any x, Index axis, bool descending) { ... });
//   op<Any, Index>(m, "tril(x, k=0)", ops::lower_triangle);
//   op(gru, "forward(x)", [](GRU& self, const Tensor& x) { return self.GRU::forward(x); });
//   op(m, "entmax: sparsemax(x)", ...);  // errors are entmax's; else those of the function, or of the layer
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <span>

#include "bindings/call/function.h"
#include "bindings/values/options.h"
#include "core/error.h"

namespace qkv::bindings {

inline std::string string_from(py::handle value, const char* operation, const char* name) {
  if (!py::isinstance<py::str>(value))
    fail_type(operation, ": ", name, " must be a string; got ", value.is_none() ? "None" : type_name(value));
  return value.cast<std::string>();
}
inline bool flag_from(py::handle value, const char* operation, const char* name) {
  if (const auto flag = flag_or_none(value)) return *flag;
  fail_type(operation, ": ", name, " must be True or False; got ", type_name(value));
}
inline Array lengths_from(Call& call, py::handle value, const char* name) {
  return nn::snapshot(call.integers_or_none(value, name));
}

// What a call makes of an argument by one of these: a method of Call's, f(call, value, name), f(value, operation,
// name), f(value, operation), f(value), or what a string means: f(operation, string), f(operation, name, string).
template <auto f, class F = decltype(f)> auto converted(Call& call, py::handle value, const char* name) {
  using Text = const char*;
  if constexpr (std::is_invocable_v<F, Call&, py::handle, Text>) return std::invoke(f, call, value, name);
  else if constexpr (std::is_invocable_v<F, py::handle, Text, Text>) return f(value, call.operation(), name);
  else if constexpr (std::is_invocable_v<F, py::handle, Text>) return f(value, call.operation());
  else if constexpr (std::is_invocable_v<F, py::handle>) return f(value);
  else if constexpr (std::is_invocable_v<F, Text, std::string>)
    return f(call.operation(), string_from(value, call.operation(), name));
  else return f(call.operation(), name, string_from(value, call.operation(), name));
}
// The argument that it makes: a class, or what is in its place.
template <class T> struct Wrapped {
  T value;
  operator const T&() const { return value; }  // NOLINT(google-explicit-constructor)
};
template <auto f, class T = decltype(converted<f>(std::declval<Call&>(), py::handle(), ""))>
struct As : std::conditional_t<std::is_class_v<T>, T, Wrapped<T>> {
  using Type = T;
  static constexpr bool kMade = true;
};

using Floating = As<&Call::floating>;  // numbers; whole ones become float32. What a Tensor means
using FloatingOrNone = As<&Call::optional>;
using Auxiliary = As<&Call::auxiliary>;  // says nothing about the result's dtype
using Any = As<&Call::any>;              // numbers of any dtype, as they are
using Mask = As<&Call::mask>;            // booleans, or numbers to add; or None. Says nothing about the dtype
using Integers = As<&Call::integers>;    // what an Array means
using Lengths = As<lengths_from>;        // valid_lens or None, in memory of their own
using IntegersOrNone = As<&Call::integers_or_none>;
using BooleansOrNone = As<&Call::booleans_or_none>;
using Number = As<required_number_from>;
using NumberOrNone = As<number_from>;
using Axes = As<axes_from>;
using Axis = As<one_axis_from>;
using Sizes = As<shape_from>;
struct Self : Tensor {};    // not converted
struct Viewed : Tensor {};  // the same, whose numbers are not read

template <class A> struct Plain {};  // as pybind11 converts it

// Several parameters of a function that make one value, all that its other arguments leave.
template <class A>
concept Group = requires(A value, Call& call, PyObject* const* values, std::span<const Parameter> parameters,
                         Parameter& parameter, std::string_view name) {
  A::describe(parameter, name);  // its type
  // Which of them has a type that does not fit, or their number.
  { value.take(call, values, parameters) } -> std::same_as<std::size_t>;
};

// Classes that Python sees, whose objects are passed by reference.
template <class T>
concept ClassOfPython = !kOneOf<T, Tensor, std::string, std::string_view> && !std::is_base_of_v<py::handle, T> &&
                        requires { requires KindOf<T>::kClass; };

// An argument of a call, converted. Of types without a conversion of ours pybind11 makes it.
template <class A> struct Argument;
template <class A> struct Inner {
  using Type = A;
};
template <class A> struct Inner<std::optional<A>> {
  using Type = A;
};
template <class A> struct Argument<Plain<A>> {
  using T = std::remove_cvref_t<A>;
  std::conditional_t<ClassOfPython<T>, T*, std::optional<T>> value = {};
  static std::string kind() { return kind_of<A>(); }
  bool load([[maybe_unused]] Call& call, py::handle given, [[maybe_unused]] const char* name) {
    if constexpr (std::is_arithmetic_v<typename Inner<T>::Type>) check_constant(given, call.operation(), name);
    if constexpr (std::is_same_v<typename Inner<T>::Type, Index>)
      if (!given.is_none() && !is_whole(given.ptr())) return false;
    if constexpr (std::is_same_v<T, py::handle>) {
      value = given;
    } else if constexpr (std::is_same_v<T, Tensor>) {
      value = tensor_or_undefined(given);
      return value->defined();
    } else if constexpr (std::is_same_v<T, const char*>) {  // lives as long as Python's string
      if (!py::isinstance<py::str>(given)) return false;
      value = PyUnicode_AsUTF8(given.ptr());
      if (*value == nullptr) throw py::error_already_set();
    } else if constexpr (std::is_base_of_v<py::object, T>) {
      if (!py::isinstance<T>(given)) return false;
      value = py::reinterpret_borrow<T>(given);
    } else {
      if (ClassOfPython<T> && given.is_none()) return false;  // a reference; only pointers may be null
      try {
        if constexpr (ClassOfPython<T>) value = &given.cast<T&>();
        else value = given.cast<T>();
      } catch (const py::cast_error&) {  // of another type
        return false;
      }
    }
    return true;
  }
  A&& get() { return static_cast<A&&>(*value); }
  double numbers() const { return 1; }
};
template <> struct Argument<NewObject> {
  const NewObject* value = nullptr;
  static std::string kind() { return "None"; }
  bool load(Call&, PyObject* place, const char*) {
    value = reinterpret_cast<const NewObject*>(place);
    return true;
  }
  const NewObject& get() { return *value; }
  double numbers() const { return 1; }
};
template <class A> struct Argument : Argument<Plain<A>> {};
template <Group A> struct Argument<A> {
  A value;
  A& get() { return value; }
  double numbers() const { return 1; }
};

template <auto f> struct Argument<As<f>> {
  using T = typename As<f>::Type;
  static constexpr bool kOwn = true;
  As<f> value;
  static std::string kind() { return std::is_enum_v<T> && !std::is_same_v<T, ops::Causal> ? "str" : "object"; }
  bool load(Call& call, PyObject* given, const char* name) {
    value = {converted<f>(call, given, name)};
    return true;
  }
  As<f>&& get() { return std::move(value); }
  double numbers() const {
    if constexpr (kOneOf<T, Tensor, Array>)
      if (value.defined()) return static_cast<double>(value.numel());
    return 1;
  }
};
template <> struct Argument<Tensor> : Argument<Floating> {};
template <> struct Argument<Array> : Argument<Integers> {};
template <> struct Argument<ops::Causal> : Argument<As<causal_from>> {};
template <> struct Argument<std::optional<std::pair<Index, Index>>> : Argument<As<window_from>> {};
template <class A>
  requires kOneOf<A, Self, Viewed>
struct Argument<A> {
  A value;
  static std::string kind() { return "Tensor"; }
  bool load(Call& call, PyObject* given, const char*) {
    if (!is_tensor(given)) return false;
    value = {py::handle(given).cast<Tensor>()};
    call.force_tensor();
    return true;
  }
  A&& get() { return std::move(value); }
  double numbers() const { return std::is_same_v<A, Self> ? static_cast<double>(value.numel()) : 0; }
};

template <class R> inline constexpr bool kTuple = false;
template <class... R> inline constexpr bool kTuple<std::tuple<R...>> = true;
template <class A, class B> inline constexpr bool kTuple<std::pair<A, B>> = true;

// What a call gives that may be asked for more: the first alone where the second is undefined.
struct OneOrPair {
  Tensor first, second;
};
inline py::object shown_result(const Call& call, const OneOrPair& y) {
  if (!y.second.defined()) return call.result(y.first);
  return py::make_tuple(call.result(y.first), call.result(y.second));
}
// lse stays float32 where the others are of half width.
inline py::object shown_result(const Call& call, const ops::AttentionOutputs& y) {
  if (!y.lse.defined()) return shown_result(call, OneOrPair{y.output, y.weights});
  const py::object lse = call.any_tensor() ? py::cast(y.lse) : py::object(to_numpy(y.lse.data(), true));
  if (!y.weights.defined()) return py::make_tuple(call.result(y.output), lse);
  return py::make_tuple(call.result(y.output), call.result(y.weights), lse);
}

template <class R> py::object shown_result(const Call& call, R&& result) {
  using Result = std::remove_cvref_t<R>;
  if constexpr (kOneOf<Result, Tensor, Array>) return call.result(result);
  else if constexpr (kOneOf<Result, OneOrPair, ops::AttentionOutputs>) return shown_result(call, std::as_const(result));
  else if constexpr (kTuple<Result>)
    return std::apply([&](auto&... all) { return py::make_tuple(shown_result(call, all)...); }, result);
  else if constexpr (std::is_base_of_v<py::object, Result>) return std::forward<R>(result);
  else return py::cast(std::forward<R>(result));
}

template <class R, bool layer> std::string kind_of_result() {
  using Result = std::remove_cvref_t<R>;
  if constexpr (kOneOf<Result, Tensor, Array>) return layer ? "Tensor" : "object";
  else if constexpr (kOneOf<Result, OneOrPair, ops::AttentionOutputs>) return "object";
  else if constexpr (kTuple<Result>)
    return []<class... T>(std::type_identity<std::tuple<T...>>) {
      std::string all;
      ((all += (all.empty() ? "" : ", ") + kind_of_result<T, layer>()), ...);
      return "tuple[" + all + "]";
    }(std::type_identity<decltype(std::tuple_cat(std::declval<Result>()))>());
  else return kind_of<Result>();
}

template <class A> struct Parameters {
  using Type = std::remove_cvref_t<A>;
};
template <class A> struct Parameters<Plain<A>> : Parameters<A> {};

// Of functions whose last parameter is the Call, which hold Python's lock and give it back themselves, of those that
// take objects of Python's, and of `plain` ones, whose arguments and results are pybind11's.
template <bool plain, class F, class... A> struct Operation {
  static constexpr bool kCall = !std::is_invocable_v<F&, decltype(std::declval<Argument<A>&>().get())...>;
  static constexpr bool kLocked = plain || kCall || (std::is_base_of_v<py::handle, std::remove_cvref_t<A>> || ...);
  static constexpr std::array<bool, sizeof...(A)> kGroups{Group<A>...};
  static constexpr std::size_t kGroup = static_cast<std::size_t>(std::ranges::find(kGroups, true) - kGroups.begin());
  using First = std::remove_cvref_t<std::tuple_element_t<0, std::tuple<A..., void>>>;
  static constexpr bool kLayer = std::is_base_of_v<nn::Module, First>;
  static constexpr bool kTensor = plain || kLayer || kOneOf<First, Self, Viewed>;

  F function;
  std::string name;

  static PyObject* invoke(const Signature& s, PyObject* const* values, std::size_t& failed) {
    auto& self = *static_cast<Operation*>(s.function.get());
    Call call(self.name.c_str());
    if constexpr (plain || kLayer) call.force_tensor();
    std::tuple<Argument<A>...> arguments;
    const auto load = [&]<class T>(Argument<T>& argument, std::size_t i) {
      const std::size_t more = s.parameters.size() - sizeof...(A);  // than arguments
      if (i > kGroup) i += more;
      if constexpr (Group<T>) {
        const auto wrong = argument.value.take(call, values + i, std::span(s.parameters).subspan(i, more + 1));
        failed = i + wrong;
        return wrong == more + 1;
      } else {
        failed = i;
        const py::object& name = s.parameters[i].name;
        return argument.load(call, values[i], name.is_none() ? "argument" : PyUnicode_AsUTF8(name.ptr()));
      }
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) -> PyObject* {
      if (!(load(std::get<I>(arguments), I) && ...)) return nullptr;
      failed = Signature::kNone;
      const auto compute = [&]() -> decltype(auto) {
        if constexpr (kCall) return std::invoke(self.function, std::get<I>(arguments).get()..., call);
        else return std::invoke(self.function, std::get<I>(arguments).get()...);
      };
      const auto run = [&]() -> decltype(auto) {
        if constexpr (kLocked) return compute();
        else if constexpr (kLayer) return without_gil(compute);
        else  // more than each number once with each of the others' is seldom touched
          return without_gil(static_cast<Index>(std::min((std::get<I>(arguments).numbers() * ... * 1.0), 1e18)),
                             compute);
      };
      if constexpr (std::is_void_v<decltype(run())>) {
        run();
        return Py_NewRef(Py_None);
      } else {
        return shown_result(call, run()).release().ptr();
      }
    }(std::index_sequence_for<A...>());
  }
};

// `head`: "name", "name(x, axis=-1)", or "operation: name(x)". `owner`: the class, of a method.
template <bool plain, class... A, class F, class... Extra>
std::unique_ptr<Signature> operation(py::handle owner, std::string_view head, F&& f, const Extra&... extra) {
  using Bound = Operation<plain, std::decay_t<F>, A...>;
  static_assert(sizeof...(A) <= Signature::kMost);
  auto made = std::make_unique<Signature>();
  std::string name;
  if (const auto colon = head.substr(0, head.find('(')).find(": "); colon != head.npos) {
    name = head.substr(0, colon);
    head.remove_prefix(colon + 2);
  }
  made->name = head.substr(0, head.find('('));
  const bool list = made->name.size() < head.size();
  const SignatureText names{list ? head.substr(made->name.size() + 1, head.size() - made->name.size() - 2) : ""};
  if (name.empty()) name = Bound::kLayer ? std::string(py::str(owner.attr("__name__"))) : made->name;
  made->owner = owner;
  constexpr std::size_t kSingle = ((!Group<A> && !kOneOf<typename Parameters<A>::Type, py::args, py::kwargs>)+... + 0);
  const std::size_t rest = (owner ? 1 : 0) + count_of(names) - kSingle;  // in a group
  [[maybe_unused]] const auto add = [&]<class V>(std::type_identity<V>) {
    using Type = typename Parameters<V>::Type;
    if constexpr (Group<V>) made->parameters.resize(made->parameters.size() + rest);
    else
      made->parameters.push_back({py::none(),
                                  {},
                                  Argument<V>::kind,
                                  kOneOf<Type, py::args>     ? Parameter::Role::rest
                                  : kOneOf<Type, py::kwargs> ? Parameter::Role::keywords
                                                             : Parameter::Role::named});
  };
  (add(std::type_identity<A>()), ...);
  const auto result = []<class... Loaded>(std::type_identity<std::tuple<Loaded...>>) {
    if constexpr (Bound::kCall) return kind_of_result<std::invoke_result_t<F&, Loaded..., Call&>, Bound::kTensor>;
    else return kind_of_result<std::invoke_result_t<F&, Loaded...>, Bound::kTensor>;
  };
  made->result = result(std::type_identity<std::tuple<decltype(std::declval<Argument<A>&>().get())...>>());
  made->invoke = Bound::invoke;
  made->function = std::make_shared<Bound>(Bound{std::forward<F>(f), std::move(name)});
  if (owner) made->take("self"_signature);
  if (list) made->take(names);
  (made->take(extra), ...);
  made->finish();
  [[maybe_unused]] const auto type = [&]<class V>(std::type_identity<V>) {
    if constexpr (Group<V>)
      for (std::size_t i = Bound::kGroup; i < Bound::kGroup + rest; ++i)
        V::describe(made->parameters[i], PyUnicode_AsUTF8(made->parameters[i].name.ptr()));
  };
  (type(std::type_identity<A>()), ...);
  return made;
}

// What a parameter of this type is converted to.
template <bool plain, class P, class V = std::remove_cvref_t<P>>
using ParameterOf = std::conditional_t<Group<V> || requires {
  V::kMade;
} || (!plain && requires { Argument<V>::kOwn; }), V, std::conditional_t<plain, Plain<P>, P>>;

// The same of a function whose own types say what its arguments are.
template <bool plain, class R, class... A, class F, class... Extra>
std::unique_ptr<Signature> deduced(std::type_identity<std::function<R(A...)>>, py::handle owner, std::string_view head,
                                   F&& f, const Extra&... extra) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return operation<plain, ParameterOf<plain, std::tuple_element_t<I, std::tuple<A...>>>...>(
        owner, head, std::forward<F>(f), extra...);
  }(std::make_index_sequence<sizeof...(A) - (std::is_same_v<A, Call&> + ... + 0)>());
}
template <class F> using SignatureOf = std::type_identity<decltype(std::function(std::declval<std::decay_t<F>>()))>;

// The function becomes one of the module's, or a method of the class. A...: what its parameters are converted to, where
// their own types do not say it, without the Call.
template <class... A, Callable F> void op(py::handle scope, std::string_view head, std::string_view doc, F&& f) {
  const py::handle owner = PyType_Check(scope.ptr()) != 0 ? scope : py::handle();
  if constexpr (sizeof...(A) > 0) add_function(scope, operation<false, A...>(owner, head, std::forward<F>(f), doc));
  else add_function(scope, deduced<false>(SignatureOf<F>(), owner, head, std::forward<F>(f), doc));
}
template <class... A, Callable F> void op(py::handle scope, std::string_view head, F&& f) {
  op<A...>(scope, head, "", std::forward<F>(f));
}

// A method of the class T of C++ as a function of it.
template <class T, class C, class R, class... A> auto function_of_method(R (C::*method)(A...)) {
  return [method](T& self, A... a) -> R { return (self.*method)(std::forward<A>(a)...); };
}
template <class T, class C, class R, class... A> auto function_of_method(R (C::*method)(A...) const) {
  return [method](const T& self, A... a) -> R { return (self.*method)(std::forward<A>(a)...); };
}

// What `owner`, a class or nothing, has under that name, with arguments and results as pybind11 converts them.
template <class T, class F, class... Extra>
std::unique_ptr<Signature> bound(std::string_view head, py::handle owner, F&& f, const Extra&... extra) {
  if constexpr (std::is_member_function_pointer_v<std::remove_cvref_t<F>>)
    return bound<T>(head, owner, function_of_method<T>(f), extra...);
  else return deduced<true>(SignatureOf<F>(), owner, head, std::forward<F>(f), extra...);
}

// A module whose functions are bound so.
class Functions : public py::module_ {
 public:
  explicit Functions(const py::module_& all) : py::module_(all) {}
  template <Callable F> void def(std::string_view head, F&& f) { def(head, "", std::forward<F>(f)); }
  template <Callable F> void def(std::string_view head, std::string_view doc, F&& f) {
    add_function(*this, bound<void>(head, {}, std::forward<F>(f), doc));
  }
};

}  // namespace qkv::bindings
