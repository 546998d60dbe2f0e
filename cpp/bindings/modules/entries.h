// Entries of a module as attributes of its Python object. The object of a part stays in the instance's dict, so that
// the same one comes back, with everything that was set on it.
#pragma once

#include "bindings/call/interpreter.h"
#include "bindings/values/convert.h"
#include "nn/module.h"

namespace qkv::bindings {

using nn::Module;
using nn::ModulePtr;
using EntryKind = Module::Entry::Kind;

bool is_parameter(py::handle value);

py::object get_attribute(const py::object& self, const std::string& name);
void set_attribute(const py::object& self, const py::str& name, const py::object& value);
void delete_attribute(const py::object& self, const py::str& name);

// {name: object} of all entries of a kind, in their order.
py::dict entries_of(const py::object& self, EntryKind kind);
// Puts an object, or None, under a name that may be new.
void register_entry(const py::object& self, EntryKind kind, const std::string& name, const py::object& value,
                    bool persistent = true);

// The arguments that an equal module is made with.
py::dict config_dict(const nn::Module& module);
// Everything but what a layer remembers of its last call; what copies and pickles hold.
py::dict get_state(const py::object& self);
void set_state(const py::object& self, const py::dict& state);

}  // namespace qkv::bindings
