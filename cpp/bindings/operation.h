// Functions and methods that compute with arrays. An argument is converted as its type in C++ says, what is computed
// runs without Python's lock, and results are what Call makes of them: Tensors where an argument was one, and from
// layers.
//
//   op(m, "softmax(x, axis, temperature)", ops::softmax);
//   op<Any, Index>(m, "tril(x, k=0)", ops::lower_triangle);
//   op(gru, "forward(x)", [](GRU& self, const Tensor& x) { return self.GRU::forward(x); });
//   op(m, "entmax: sparsemax(x)", ...);  // errors are entmax's; else those of the function, or of the layer
#pragma once

#include "bindings/class.h"
#include "bindings/options.h"
#include "core/error.h"

namespace qkv::bindings {

template <class T> using Conversion = T (*)(Call&, py::handle value, const char* name);

// The T that a conversion makes of an argument.
template <class T, Conversion<T> convert> struct As {
  using Type = T;
};

namespace conversion {
inline Tensor floating(Call& call, py::handle value, const char* name) { return call.floating(value, name); }
inline Tensor floating_or_none(Call& call, py::handle value, const char* name) { return call.optional(value, name); }
inline Tensor aside(Call& call, py::handle value, const char* name) { return call.floating(value, name, false); }
inline Tensor any(Call& call, py::handle value, const char* name) { return call.any(value, name); }
inline Tensor mask(Call& call, py::handle value, const char* name) { return call.mask(value, name); }
inline Array integers(Call& call, py::handle value, const char* name) { return call.integers(value, name, false); }
inline Array integers_or_none(Call& call, py::handle value, const char* name) { return call.integers(value, name); }
inline Array lengths(Call& call, py::handle value, const char* name) {
  return nn::snapshot(call.integers(value, name));
}
inline Array booleans_or_none(Call& call, py::handle value, const char* name) { return call.booleans(value, name); }
inline std::string string(Call& call, py::handle value, const char* name) {
  if (!py::isinstance<py::str>(value))
    fail_type(call.operation(), ": ", name, " must be a string; got ", value.is_none() ? "None" : type_name(value));
  return value.cast<std::string>();
}
inline double number(Call& call, py::handle value, const char* name) {
  return required_number_from(value, call.operation(), name);
}
inline std::optional<double> number_or_none(Call& call, py::handle value, const char* name) {
  return number_from(value, call.operation(), name);
}
inline bool flag(Call& call, py::handle value, const char* name) {
  py::detail::make_caster<bool> caster;
  if (!caster.load(value, true))
    fail_type(call.operation(), ": ", name, " must be True or False; got ", type_name(value));
  return caster;
}
inline ops::Causal causal(Call& call, py::handle value, const char*) { return causal_from(value, call.operation()); }
inline std::optional<std::pair<Index, Index>> window(Call& call, py::handle value, const char*) {
  return window_from(value, call.operation());
}
inline std::optional<IndexList> axes(Call& call, py::handle value, const char*) {
  return axes_from(value, call.operation());
}
inline std::optional<Index> axis(Call& call, py::handle value, const char*) {
  return one_axis_from(value, call.operation());
}
inline Shape shape(Call& call, py::handle value, const char* name) { return shape_from(value, call.operation(), name); }
}  // namespace conversion

using Floating = As<Tensor, conversion::floating>;  // numbers; whole ones become float32. What a Tensor means
using FloatingOrNone = As<Tensor, conversion::floating_or_none>;
using Aside = As<Tensor, conversion::aside>;       // says nothing about the result's dtype
using Any = As<Tensor, conversion::any>;           // numbers of any dtype, as they are
using Mask = As<Tensor, conversion::mask>;         // booleans, or numbers to add; or None. Says nothing about the dtype
using Integers = As<Array, conversion::integers>;  // what an Array means
using Lengths = As<Array, conversion::lengths>;    // valid_lens or None, in memory of their own
using IntegersOrNone = As<Array, conversion::integers_or_none>;
using BooleansOrNone = As<Array, conversion::booleans_or_none>;
using Number = As<double, conversion::number>;
using NumberOrNone = As<std::optional<double>, conversion::number_or_none>;
using Axes = As<std::optional<IndexList>, conversion::axes>;
using Axis = As<std::optional<Index>, conversion::axis>;
using Sizes = As<Shape, conversion::shape>;
struct Self {};    // a Tensor, not converted
struct Viewed {};  // the same, of which no number is read

// An argument of a call, converted. Of types without a conversion of ours pybind11 makes it.
template <class A> struct Argument {
  py::detail::make_caster<A> caster;
  static std::string kind() { return kind_of<A>(); }
  bool load(Call&, PyObject* value, const char*) { return bindings::load<A>(caster, value); }
  decltype(auto) get() { return py::detail::cast_op<A>(std::move(caster)); }
  double numbers() const { return 1; }
};

template <class T, Conversion<T> convert> struct Argument<As<T, convert>> {
  T value;
  static std::string kind() { return "object"; }
  bool load(Call& call, PyObject* given, const char* name) {
    value = convert(call, given, name);
    return true;
  }
  const T& get() const { return value; }
  double numbers() const {
    if constexpr (kOneOf<T, Tensor, Array>)
      if (value.defined()) return static_cast<double>(value.numel());
    return 1;
  }
};
template <> struct Argument<Tensor> : Argument<Floating> {};
template <> struct Argument<const Tensor&> : Argument<Floating> {};
template <> struct Argument<Array> : Argument<Integers> {};
template <> struct Argument<const Array&> : Argument<Integers> {};
template <> struct Argument<Viewed> {
  Tensor value;
  static std::string kind() { return "Tensor"; }
  bool load(Call& call, PyObject* given, const char*) {
    if (!is_tensor(given)) return false;
    value = py::handle(given).cast<Tensor>();
    call.force_tensor();
    return true;
  }
  const Tensor& get() const { return value; }
  double numbers() const { return 0; }
};
template <> struct Argument<Self> : Argument<Viewed> {
  double numbers() const { return static_cast<double>(value.numel()); }
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
  using Given = std::remove_cvref_t<R>;
  if constexpr (kOneOf<Given, Tensor, Array>) return call.result(result);
  else if constexpr (kOneOf<Given, OneOrPair, ops::AttentionOutputs>) return shown_result(call, std::as_const(result));
  else if constexpr (kTuple<Given>)
    return std::apply([&](auto&... all) { return py::make_tuple(shown_result(call, all)...); }, result);
  else if constexpr (std::is_base_of_v<py::object, Given>) return std::forward<R>(result);
  else return py::cast(std::forward<R>(result));
}

template <class R, bool layer> std::string kind_of_result() {
  using Given = std::remove_cvref_t<R>;
  if constexpr (kOneOf<Given, Tensor, Array>) return layer ? "Tensor" : "object";
  else if constexpr (kOneOf<Given, OneOrPair, ops::AttentionOutputs>) return "object";
  else if constexpr (kTuple<Given>)
    return []<class... T>(std::type_identity<std::tuple<T...>>) {
      std::string all;
      ((all += (all.empty() ? "" : ", ") + kind_of_result<T, layer>()), ...);
      return "tuple[" + all + "]";
    }(std::type_identity<decltype(std::tuple_cat(std::declval<Given>()))>());
  else return kind_of<Given>();
}

// Of functions whose last parameter is the Call, which hold Python's lock and give it back themselves, and of those
// that take objects of Python's.
template <class F, class... A> struct Operation {
  static constexpr bool kCall = !std::is_invocable_v<const F&, decltype(std::declval<Argument<A>&>().get())...>;
  static constexpr bool kLocked = kCall || (std::is_base_of_v<py::handle, std::remove_cvref_t<A>> || ...);
  using First = std::remove_cvref_t<std::tuple_element_t<0, std::tuple<A..., void>>>;
  static constexpr bool kLayer = std::is_base_of_v<nn::Module, First>;
  static constexpr bool kTensor = kLayer || kOneOf<First, Self, Viewed>;

  F function;
  std::string name;

  static PyObject* invoke(const Signature& s, PyObject* const* values, std::size_t& failed) {
    const auto& self = *static_cast<const Operation*>(s.function.get());
    Call call(self.name.c_str());
    if constexpr (kLayer) call.force_tensor();
    std::tuple<Argument<A>...> arguments;
    const auto load = [&](auto& argument, std::size_t i) {
      const py::object& name = s.parameters[i].name;
      if (argument.load(call, values[i], name.is_none() ? "argument" : PyUnicode_AsUTF8(name.ptr()))) return true;
      failed = i;
      return false;
    };
    return [&]<std::size_t... I>(std::index_sequence<I...>) -> PyObject* {
      if (!(load(std::get<I>(arguments), I) && ...)) return nullptr;
      const auto compute = [&]() -> decltype(auto) {
        if constexpr (kCall) return self.function(std::get<I>(arguments).get()..., call);
        else return self.function(std::get<I>(arguments).get()...);
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

template <class... A, class F>
void add_operation(py::handle scope, std::string_view head, std::string_view doc, F&& f) {
  using Bound = Operation<std::decay_t<F>, A...>;
  static_assert(sizeof...(A) <= Signature::kMost);
  const bool method = PyType_Check(scope.ptr()) != 0;
  auto made = std::make_unique<Signature>();
  std::string name;
  if (const auto colon = head.substr(0, head.find('(')).find(": "); colon != head.npos) {
    name = head.substr(0, colon);
    head.remove_prefix(colon + 2);
  }
  made->name = head.substr(0, head.find('('));
  if (name.empty()) name = Bound::kLayer ? std::string(py::str(scope.attr("__name__"))) : made->name;
  if (method) made->owner = scope;
  made->parameters = {Parameter{py::none(), {}, Argument<A>::kind, parameter<A>().role}...};
  const auto result = []<class... Given>(std::type_identity<std::tuple<Given...>>) {
    if constexpr (Bound::kCall) return kind_of_result<std::invoke_result_t<const F&, Given..., Call&>, Bound::kTensor>;
    else return kind_of_result<std::invoke_result_t<const F&, Given...>, Bound::kTensor>;
  };
  made->result = result(std::type_identity<std::tuple<decltype(std::declval<Argument<A>&>().get())...>>());
  made->invoke = Bound::invoke;
  made->function = std::make_shared<Bound>(Bound{std::forward<F>(f), std::move(name)});
  if (method) made->take("self"_takes);
  if (made->name.size() < head.size())
    made->take(Takes{head.substr(made->name.size() + 1, head.size() - made->name.size() - 2)});
  made->take(doc);
  made->finish();
  add_function(scope, std::move(made));
}

template <class R, class... A, class F>
void add_deduced(R (*)(A...), py::handle scope, std::string_view head, std::string_view doc, F&& f) {
  using All = std::tuple<A...>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    add_operation<std::tuple_element_t<I, All>...>(scope, head, doc, std::forward<F>(f));
  }(std::make_index_sequence<sizeof...(A) - (std::is_same_v<A, Call&> + ... + 0)>());
}

// The function becomes one of the module's, or a method of the class. A...: what its parameters are converted to, where
// their own types do not say it, without the Call.
template <class... A, Callable F> void op(py::handle scope, std::string_view head, std::string_view doc, F&& f) {
  using Signed = py::detail::function_signature_t<std::decay_t<F>>;
  if constexpr (sizeof...(A) > 0) add_operation<A...>(scope, head, doc, std::forward<F>(f));
  else add_deduced(static_cast<Signed*>(nullptr), scope, head, doc, std::forward<F>(f));
}
template <class... A, Callable F> void op(py::handle scope, std::string_view head, F&& f) {
  op<A...>(scope, head, "", std::forward<F>(f));
}

}  // namespace qkv::bindings
