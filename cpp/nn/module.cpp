#include "nn/module.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "kernels/kernels.h"

namespace qkv::nn {

using Kind = Module::Entry::Kind;

Tensor Module::forward(const Tensor&) {
  fail_type(class_name(), ": cannot be called with one Tensor alone, as Sequential does; call it yourself");
}

const Module::Entry* Module::find(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

void Module::add_entry(Entry entry) {
  const auto old = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == entry.name; });
  if (old == entries_.end()) {
    if (entry.bind) entry.bind(entry);
    entries_.push_back(std::move(entry));
  } else {
    if (!entry.bind) entry.bind = old->bind;
    if (entry.bind) entry.bind(entry);
    *old = std::move(entry);
  }
  changed();
}

void Module::wrong_entry(const std::string& name, const std::string& wanted) const {
  fail_type(class_name(), ": ", name, " must be ", wanted, " because the layer computes with it");
}

void Module::own_parameter(const std::string& name, Tensor& member, Tensor value, Absent absent) {
  add_entry({name, Kind::parameter, std::move(value), nullptr, [&member, this, name, absent](const Entry& entry) {
               const bool none = !entry.tensor.defined() && !entry.module;
               if (entry.module || (none && member.defined() && absent == Absent::never)) wrong_entry(name, "a Parameter");
               member = entry.tensor;
             }});
}

void Module::register_parameter(const std::string& name, Tensor parameter) {
  auto* given = dynamic_cast<ParameterImpl*>(parameter.impl().get());
  if (given != nullptr && std::exchange(given->follows_module, false)) given->data = given->data.cast(dtype_);
  add_entry({name, Kind::parameter, std::move(parameter), nullptr, nullptr});
}

void Module::register_buffer(const std::string& name, Tensor buffer) {
  add_entry({name, Kind::buffer, std::move(buffer), nullptr, nullptr});
}

void Module::register_module(const std::string& name, ModulePtr module) {
  if (module.get() == this) fail_value(class_name(), ": a module cannot be its own part; got itself as ", name);
  if (module)
    for (const auto& [path, part] : module->named_modules())
      if (part.get() == this)
        fail_value(class_name(), ": ", name, " must not contain the module that it becomes a part of; it does, as ", path);
  add_entry({name, Kind::module, Tensor(), std::move(module), nullptr});
}

void Module::remove(const std::string& name) {
  const auto old = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (old == entries_.end()) return;
  if (old->bind) fail_type(class_name(), ": ", name, " cannot be deleted because the layer computes with it");
  entries_.erase(old);
}

void Module::collect(const std::string& prefix, bool buffers, std::vector<std::pair<std::string, Tensor>>& found) const {
  require_parameters();
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::module) {
      if (entry.module) entry.module->collect(prefix + entry.name + ".", buffers, found);
    } else if (entry.tensor.defined() && (buffers || entry.kind == Kind::parameter)) {
      const bool seen = !buffers && std::any_of(found.begin(), found.end(), [&](const auto& f) {
        return f.second.impl() == entry.tensor.impl();
      });
      if (!seen) found.emplace_back(prefix + entry.name, entry.tensor);
    }
  }
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> found;
  collect("", false, found);
  return found;
}

std::vector<std::pair<std::string, Tensor>> Module::named_state() const {
  std::vector<std::pair<std::string, Tensor>> found;
  collect("", true, found);
  return found;
}

std::vector<std::pair<std::string, ModulePtr>> Module::named_modules() {
  ModulePtr self = weak_from_this().lock();
  if (!self) self = ModulePtr(ModulePtr(), this);  // owned by a Python object, which has not been shared yet
  std::vector<std::pair<std::string, ModulePtr>> found{{"", std::move(self)}};
  for (const Entry& entry : entries_) {
    if (!entry.module) continue;
    for (auto& [name, module] : entry.module->named_modules())
      found.emplace_back(name.empty() ? entry.name : entry.name + "." + name, module);
  }
  return found;
}

std::vector<Tensor> Module::existing_state() {
  std::vector<Tensor> found;
  for (auto& [name, module] : named_modules())
    for (const Entry& entry : module->entries_)
      if (entry.tensor.defined()) found.push_back(entry.tensor);
  return found;
}

Index Module::num_parameters() const {
  Index count = 0;
  for (const auto& [name, parameter] : named_parameters()) count += parameter.numel();
  return count;
}

void Module::adapt_state(StateDict&, const std::string&) {}

void Module::adapt_all(StateDict& state, const std::string& prefix) {
  adapt_state(state, prefix);
  for (const Entry& entry : entries_)
    if (entry.module) entry.module->adapt_all(state, prefix + entry.name + ".");
}

void Module::load_state(StateDict state, bool strict) {
  adapt_all(state, "");
  const auto own = named_state();
  std::string missing, unexpected, wrong;
  const auto list = [](std::string& names, const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  for (const auto& [name, tensor] : own) {
    const auto given = state.find(name);
    if (given == state.end()) list(missing, name);
    else if (given->second.shape() != tensor.shape())
      list(wrong, text(name, " must be ", tensor.shape(), " and is ", given->second.shape()));
  }
  for (const auto& [name, array] : state)
    if (std::none_of(own.begin(), own.end(), [&wanted = name](const auto& entry) { return entry.first == wanted; })) list(unexpected, name);
  std::string problems;
  const auto report = [&](const char* what, const std::string& names) {
    if (!names.empty()) problems += text(problems.empty() ? "" : "; ", what, ": ", names);
  };
  if (strict) report("missing", missing);
  if (strict) report("unexpected", unexpected);
  report("wrong shape", wrong);
  if (!problems.empty()) fail_value("load_state_dict: the names and shapes must be those of ", class_name(), "; got ", problems);
  for (const auto& [name, tensor] : own) {
    const auto given = state.find(name);
    if (given == state.end()) continue;
    const Array cast = given->second.cast(tensor.dtype());
    std::memmove(tensor.data().raw(), cast.raw(), static_cast<std::size_t>(cast.bytes()));
    tensor.data().buffer()->raise_version();
  }
  for (auto& [name, module] : named_modules()) module->changed();
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) fail_type("to: dtype must be float32, float64 or bfloat16; got ", dtype);
  for (const Tensor& tensor : existing_state()) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) continue;
    tensor.impl()->data = tensor.data().cast(dtype);
    if (const Array grad = tensor.impl()->grad.get(); grad.defined()) tensor.impl()->grad.set(grad.cast(dtype));
  }
  for (auto& [name, module] : named_modules()) {
    module->bfloat16_ = false;
    module->dtype_ = dtype;
    module->changed();
  }
}

void Module::to_bfloat16() {
  to(DType::float32);
  for (const Tensor& tensor : existing_state()) {
    if (!is_floating(tensor.dtype())) continue;
    Array rounded(tensor.shape(), DType::float32);
    kernels::kernels<float>().packed_bfloat16.round(rounded.data<float>(), tensor.ptr<float>(), rounded.numel());
    tensor.impl()->data = std::move(rounded);
  }
  for (auto& [name, module] : named_modules()) {
    module->bfloat16_ = true;
    module->changed();
  }
}

void Module::zero_grad() {
  for (auto& [name, parameter] : named_parameters()) parameter.impl()->grad.set({});
}

void Module::set_training(bool training) {
  for (auto& [name, module] : named_modules()) module->training_ = training;
}

}  // namespace qkv::nn
