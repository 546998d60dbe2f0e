#include "bindings/operations/attention_options.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bindings/operations/formula_source.h"

namespace qkv::bindings {
namespace {

using Options = ops::AttentionOptions;
using Standard = AttentionOption::Standard;

template <class T> py::object as_argument(const T& value) { return py::cast(value); }
py::object as_argument(ops::Causal causal) { return causal_object(causal); }
py::object as_argument(const Array& array) { return py::cast(array.defined() ? Tensor(array) : Tensor()); }
py::object as_argument(ops::Normalizer normalizer) { return py::str(ops::name_of(normalizer)); }

template <auto member> py::object pass(Options& o, const Options& others) {
  o.*member = others.*member;
  return as_argument(o.*member);
}

template <auto member, auto convert>
constexpr AttentionOption option(const char* name, decltype(AttentionOption::pass_on) pass_on = nullptr) {
  using Value = std::remove_cvref_t<decltype(std::declval<Options&>().*member)>;
  return {name, std::is_same_v<Value, bool> ? kind_of<bool> : Argument<Floating>::kind,
          kOneOf<Value, bool, double, ops::Causal> ? Standard::off
          : kOneOf<Value, ops::Normalizer>         ? Standard::left_out
                                                   : Standard::none,
          [](Options& o, Call& call, const char* named, PyObject* const* value) {
            o.*member = converted<convert>(call, *value, named);
          },
          pass_on};
}
template <auto member, auto convert> constexpr AttentionOption passed_on(const char* name) {
  return option<member, convert>(name, pass<member>);
}

// Of the core's own callers, who leave it out otherwise.
template <auto member, auto convert> constexpr AttentionOption hidden(const char* name) {
  return {name, Argument<Floating>::kind, Standard::left_out, option<member, convert>(name).set, nullptr};
}

}  // namespace

std::optional<std::uint64_t> dropout_key_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) return {};
  const auto key = PyLong_Check(value.ptr()) != 0 ? PyLong_AsUnsignedLongLong(value.ptr()) : std::uint64_t{0};
  if (PyLong_Check(value.ptr()) == 0 || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    fail_value(operation, ": ", name, " must be an integer from 0 to 2**64 - 1; got ", described(value));
  }
  return key;
}

namespace {

// Two functions of pairs make one formula.
void set_formula(Options& o, Call& call, PyObject* score_mod, PyObject* mask_mod) {
  const auto given = [](PyObject* function) { return function == nullptr ? Py_None : function; };
  if (o.formula_source == nullptr)
    o.formula_source = formula_source_from(call.operation(), given(score_mod), given(mask_mod));
}
void set_score_mod(Options& o, Call& call, const char*, PyObject* const* value) {
  set_formula(o, call, value[0], value[1]);
}
void set_mask_mod(Options& o, Call& call, const char*, PyObject* const* value) {
  set_formula(o, call, value[-1], value[0]);
}
py::object pass_formula(Options& o, const Options& others) {
  o.formula_source = others.formula_source;
  return {};  // by the names of its functions
}

}  // namespace

// In the order in which the function takes them.
std::span<const AttentionOption> attention_options() {
  static constexpr auto all = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::to_array<AttentionOption>({
        passed_on<&Options::attn_mask, &Call::mask>("attn_mask"),
        passed_on<&Options::dropout, required_number_from>("dropout_p"),
        passed_on<&Options::causal, causal_from>("is_causal"),
        passed_on<&Options::scale, number_from>("scale"),
        option<&Options::enable_gqa, flag_from>("enable_gqa"),
        passed_on<&Options::valid_lens, &Call::integers_or_none>("valid_lens"),
        passed_on<&Options::window, window_from>("window"),
        passed_on<ops::kScoreNumbers[i].field, required_number_from>(ops::kScoreNumbers[i].name)...,
        passed_on<&Options::alibi_slopes, &Call::optional>("alibi_slopes"),
        option<&Options::q_offset, &Call::integers_or_none>("q_offset"),
        passed_on<&Options::sinks, &Call::optional>("sinks"),
        passed_on<&Options::masked_value, number_from>("masked_value"),
        passed_on<&Options::dropout_keep, &Call::booleans_or_none>("dropout_keep"),
        option<&Options::return_weights, flag_from>("return_weights"),
        option<&Options::return_lse, flag_from>("return_lse"),
        {"score_mod", Argument<Floating>::kind, Standard::left_out, set_score_mod, pass_formula},
        {"mask_mod", Argument<Floating>::kind, Standard::left_out, set_mask_mod, nullptr},
        passed_on<&Options::normalizer, ops::normalizer_named>("normalizer"),
        hidden<&Options::formula, formula_value_from>("formula"),
        hidden<&Options::dropout_key, dropout_key_from>("dropout_key"),
        hidden<&Options::keep_layout, flag_from>("keep_layout"),
    });
  }(std::make_index_sequence<std::size(ops::kScoreNumbers)>());
  return all;
}

void set_attention_options(Options& o, Call& call, PyObject* const* values) {
  for (const AttentionOption& option : attention_options()) {
    PyObject* value = *values;
    const bool standard = value == Py_None ? option.standard == Standard::none || option.standard == Standard::left_out
                          : value == Py_False ? option.standard == Standard::off
                                              : value == nullptr;
    if (!standard) option.set(o, call, option.name, values);
    ++values;
  }
}

ops::AttentionOptions attention_options_from(Call& call, const py::dict& given) {
  Options o;
  o.operation = call.operation();
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> made;
    for (const AttentionOption& option : attention_options()) made.push_back(PyUnicode_InternFromString(option.name));
    return made;
  }();
  std::vector<PyObject*> values(names.size());
  for (const auto& [key, value] : given) {
    // Words of a program are interned; of others the text is compared.
    auto name = std::find(names.begin(), names.end(), key.ptr());
    if (name == names.end() && PyUnicode_Check(key.ptr()) && !PyUnicode_CHECK_INTERNED(key.ptr()))
      name =
          std::find_if(names.begin(), names.end(), [&](PyObject* n) { return PyUnicode_Compare(n, key.ptr()) == 0; });
    if (name != names.end()) values[static_cast<std::size_t>(name - names.begin())] = value.ptr();
  }
  set_attention_options(o, call, values.data());
  return o;
}

py::dict passed_options(const ops::AttentionOptions& o) {
  Options passed;
  passed.operation = o.operation;
  passed.names = o.names;
  py::dict options;
  for (const AttentionOption& option : attention_options())
    if (option.pass_on != nullptr)
      if (const py::object value = option.pass_on(passed, o)) options[option.name] = value;
  Keywords functions;
  add_formula(functions, o.formula_source);
  options.attr("update")(functions.all());
  if (passed != o)
    throw std::logic_error("attention over several processes was asked for an option that it does not pass on");
  return options;
}

py::object causal_object(ops::Causal causal) {
  if (causal == ops::Causal::lower_right) return py::str("lower_right");
  return py::bool_(causal != ops::Causal::none);
}

}  // namespace qkv::bindings
