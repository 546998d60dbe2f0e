// The options of attention: each is once in one table, with its name in Python and what its values are converted
// by. The function takes them, processes that share a computation pass them on.
#pragma once

#include "bindings/values/operation.h"

namespace qkv::bindings {

struct AttentionOption {
  const char* name;
  std::string (*kind)();                                 // its type, as a stub writes it
  enum class Standard { none, off, left_out } standard;  // None, False or 0.0, None where it may be left out
  // Sets the option. `value` is among those of the others.
  void (*set)(ops::AttentionOptions& o, Call& call, const char* name, PyObject* const* value);
  // Sets it as the others have it; gives its value as the function takes it. Null: it is not passed on to other
  // processes.
  py::object (*pass_on)(ops::AttentionOptions& o, const ops::AttentionOptions& others);
};
std::span<const AttentionOption> attention_options();
// None, or the key of the stream that a dropout draws from.
std::optional<std::uint64_t> dropout_key_from(py::handle value, const char* operation, const char* name);
// From values in the table's order, null where one is not given.
void set_attention_options(ops::AttentionOptions& o, Call& call, PyObject* const* values);

// Those of a dict.
ops::AttentionOptions attention_options_from(Call& call, const py::dict& given);
// A dict of what is passed on to other processes; an error if that is not all.
py::dict passed_options(const ops::AttentionOptions& o);

py::object causal_object(ops::Causal causal);

}  // namespace qkv::bindings
