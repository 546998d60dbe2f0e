// Groups of an optimizer's parameters as Python gives, sees and saves them: dicts of options.
#pragma once

#include "bindings/convert.h"
#include "nn/optim.h"

namespace qkv::bindings {

// An iterable of Tensors, or of pairs (name, Tensor).
Tensors parameters_from(py::handle params, const std::string& operation);
// Adds the groups of a constructor's params: an iterable as above, or of dicts.
void add_groups(nn::Optimizer& optimizer, py::handle params);
// Adds the group that a dict describes; options that it leaves out are the optimizer's defaults.
void add_group(nn::Optimizer& optimizer, const py::dict& group, const std::string& operation);

// The rate of all groups.
void set_lr(nn::Optimizer& optimizer, py::handle value);

// The options of a group, by name.
py::dict options_of(const nn::ParameterGroup& group);
// "12 parameters, lr=0.1, weight_decay=0.0", for a repr.
std::string options_shown(const nn::ParameterGroup& group);
// The settings of a saved group; an option that it lacks is an error, and so is a value that no step here follows.
nn::OptimizerSettings saved_settings(const nn::Optimizer& optimizer, const py::dict& group);

void bind_parameter_group(py::module_& m);

}  // namespace qkv::bindings
