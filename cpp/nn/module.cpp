#include "nn/module.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "nn/init.h"
#include "ops/matmul/packed_weight.h"

namespace qkv::nn {

using Kind = Module::Entry::Kind;

Tensor Module::forward(const Tensor&) {
  fail_type(class_name(), ": cannot be called with one Tensor alone, as Sequential does; call it yourself");
}

namespace {

// Up to here names are compared one by one.
constexpr std::size_t kFew = 16;

}  // namespace

// Parts of parts are released one after the other: by recursion, a deep nest would overflow the stack.
Module::~Module() {
  thread_local std::vector<std::shared_ptr<Entries>>* waiting = nullptr;
  for (const Entry& entry : *entries_)
    if (entry.module) --entry.module->owners_;
  if (waiting != nullptr) {
    waiting->push_back(std::move(entries_));
    return;
  }
  std::vector<std::shared_ptr<Entries>> own{std::move(entries_)};
  waiting = &own;
  while (!own.empty()) {
    const std::shared_ptr<Entries> last = std::move(own.back());
    own.pop_back();
  }
  waiting = nullptr;
}

const Module::Entry* Module::find(const std::string& name) const {
  if (entries_->size() > kFew) {
    const auto found = positions_.find(name);
    return found == positions_.end() ? nullptr : &(*entries_)[found->second];
  }
  const auto found = std::find_if(entries_->begin(), entries_->end(), [&](const Entry& e) { return e.name == name; });
  return found == entries_->end() ? nullptr : &*found;
}

Module::Entries& Module::own_entries() {
  // A count of 1 says that others have let go; taking part in the count once more makes what they did come before.
  if (entries_.use_count() > 1) entries_ = std::make_shared<Entries>(*entries_);
  else std::shared_ptr<Entries>(entries_).reset();
  return *entries_;
}

void Module::add_entry(Entry entry) {
  throw_if_interrupted();
  const Entry* old = find(entry.name);
  if (old != nullptr && !entry.bind) entry.bind = old->bind;
  if (entry.bind) entry.bind(entry);
  if (entry.module) ++entry.module->owners_;
  Entry removed;  // released when this module is whole again
  if (old != nullptr && old->module) --old->module->owners_;
  if (old != nullptr && old->kind != entry.kind) {
    removed = *old;
    const Lock lock(mutex_of(this));
    erase_entry(*old);
    old = nullptr;
  }
  if (old != nullptr) {
    const auto position = old - entries_->data();
    const Lock lock(mutex_of(this));
    std::swap(own_entries()[static_cast<std::size_t>(position)],
              entry);  // the old one is released when this one is whole
  } else {
    const Lock lock(mutex_of(this));
    Entries& entries = own_entries();
    entries.push_back(std::move(entry));
    if (entries.size() > kFew)
      for (std::size_t i = positions_.size(); i < entries.size(); ++i) positions_.emplace(entries[i].name, i);
  }
  changed();
}

void Module::wrong_entry(const std::string& name, const std::string& wanted) const {
  fail_type(class_name(), ": ", name, " must be ", wanted, " because the layer computes with it");
}

void Module::own_parameter(const std::string& name, Tensor& member, Tensor value, Absent absent) {
  add_entry({name, Kind::parameter, std::move(value), nullptr, [&member, this, name, absent](const Entry& entry) {
               const bool none = !entry.tensor.defined() && !entry.module;
               if (entry.module || (none && member.defined() && absent == Absent::never))
                 wrong_entry(name, "a Parameter");
               member = entry.tensor;
             }});
}

void Module::register_parameter(const std::string& name, Tensor parameter) {
  TensorImpl* given = parameter.impl().get();
  if (given != nullptr && std::exchange(given->follows_module, false)) given->set(given->data().cast(dtype_));
  add_entry({name, Kind::parameter, std::move(parameter), nullptr, nullptr});
}

void Module::register_buffer(const std::string& name, Tensor buffer, bool persistent) {
  add_entry({name, Kind::buffer, std::move(buffer), nullptr, nullptr, persistent});
}

void Module::register_module(const std::string& name, ModulePtr module) {
  if (module.get() == this) fail_value(class_name(), ": a module cannot be its own part; got itself as ", name);
  // What is a part of nothing is not a part of `module`: so a nest is made in linear time.
  if (module && owners_ > 0)
    for (const ModulePtr& part : module->modules())
      if (part.get() == this)
        fail_value(class_name(), ": ", name, " must not contain the module that it becomes a part of; it does");
  add_entry({name, Kind::module, Tensor(), std::move(module), nullptr});
}

void Module::remove(const std::string& name) {
  const Entry* old = find(name);
  if (old == nullptr) return;
  if (old->bind) fail_type(class_name(), ": ", name, " cannot be deleted because the layer computes with it");
  if (old->module) --old->module->owners_;
  const Entry removed = *old;  // released when this module is whole again
  const Lock lock(mutex_of(this));
  erase_entry(*old);
}

void Module::erase_entry(const Entry& entry) {
  const auto position = &entry - entries_->data();
  Entries& entries = own_entries();
  entries.erase(entries.begin() + position);
  positions_.clear();
  if (entries.size() > kFew)
    for (std::size_t i = 0; i < entries.size(); ++i) positions_.emplace(entries[i].name, i);
}

// Visits root and its parts, each before its own parts: enter(module, prefix) and leaf(entry, prefix) for its
// parameters and then its buffers, where the prefix is "" or "layers.0.".
template <class Enter, class Leaf> void Module::walk(const Module& root, Enter enter, Leaf leaf) {
  struct Level {
    const Module* module;
    std::shared_ptr<const Entries> entries;
    std::size_t next, prefix;
  };
  std::string prefix;
  std::vector<Level> levels;
  const auto descend = [&](const Module& module) {
    enter(module, prefix);
    levels.push_back({&module, module.snapshot(), 0, prefix.size()});
    for (const Kind kind : {Kind::parameter, Kind::buffer})
      for (const Entry& entry : *levels.back().entries)
        if (entry.kind == kind) leaf(entry, prefix);
  };
  descend(root);
  while (!levels.empty()) {
    Level& level = levels.back();
    prefix.resize(level.prefix);
    if (level.next == level.entries->size()) {
      levels.pop_back();
      continue;
    }
    const Entry& entry = (*level.entries)[level.next++];
    if (entry.module) {
      prefix += entry.name + ".";
      descend(*entry.module);
    }
  }
}

NamedTensors Module::named_parameters() const {
  NamedTensors found;
  std::unordered_set<const TensorImpl*> seen;
  walk(
      *this, [](const Module& m, const std::string&) { m.require_parameters(); },
      [&](const Entry& entry, const std::string& prefix) {
        if (entry.kind == Kind::parameter && entry.tensor.defined() && seen.insert(entry.tensor.impl().get()).second)
          found.emplace_back(prefix + entry.name, entry.tensor);
      });
  return found;
}

NamedTensors Module::named_state() const {
  NamedTensors found;
  walk(
      *this, [](const Module& m, const std::string&) { m.require_parameters(); },
      [&](const Entry& entry, const std::string& prefix) {
        if (entry.tensor.defined() && entry.persistent) found.emplace_back(prefix + entry.name, entry.tensor);
      });
  return found;
}

Tensors Module::parameters() const {
  Tensors found;
  std::unordered_set<const TensorImpl*> seen;
  walk(
      *this, [](const Module& m, const std::string&) { m.require_parameters(); },
      [&](const Entry& entry, const std::string&) {
        if (entry.kind == Kind::parameter && entry.tensor.defined() && seen.insert(entry.tensor.impl().get()).second)
          found.push_back(entry.tensor);
      });
  return found;
}

Tensors Module::existing_state() const {
  Tensors found;
  walk(
      *this, [](const Module&, const std::string&) {},
      [&](const Entry& entry, const std::string&) {
        if (entry.tensor.defined()) found.push_back(entry.tensor);
      });
  return found;
}

ModulePtr Module::self() {
  ModulePtr self = weak_from_this().lock();
  return self ? self : ModulePtr(ModulePtr(), this);  // owned by a Python object, which has not been shared yet
}

std::vector<std::pair<std::string, ModulePtr>> Module::named_modules() {
  std::vector<std::pair<std::string, ModulePtr>> found, waiting{{"", self()}};
  while (!waiting.empty()) {
    const auto& [prefix, module] = found.emplace_back(std::move(waiting.back()));
    waiting.pop_back();
    for (auto entry = module->entries().rbegin(); entry != module->entries().rend(); ++entry)
      if (entry->module) waiting.emplace_back(prefix.empty() ? entry->name : prefix + "." + entry->name, entry->module);
  }
  return found;
}

std::vector<ModulePtr> Module::modules() {
  std::vector<ModulePtr> found, waiting{self()};
  while (!waiting.empty()) {
    const Module& module = *found.emplace_back(std::move(waiting.back()));
    waiting.pop_back();
    for (auto entry = module.entries().rbegin(); entry != module.entries().rend(); ++entry)
      if (entry->module) waiting.push_back(entry->module);
  }
  return found;
}

Index Module::num_parameters() const {
  Index count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

void Module::adapt_state(StateDict&, const std::string&) {}

void Module::torch_names(NamedTensors&, const std::string&) const {}

NamedTensors Module::torch_state() {
  NamedTensors state = named_state();
  for (auto& [name, module] : named_modules()) module->torch_names(state, name.empty() ? name : name + ".");
  return state;
}

void Module::load_state(StateDict state, bool strict) {
  for (auto& [name, module] : named_modules()) module->adapt_state(state, name.empty() ? name : name + ".");
  const auto own = named_state();
  std::vector<std::string> missing, unexpected, wrong;
  for (const auto& [name, tensor] : own) {
    const auto given = state.find(name);
    if (given == state.end()) missing.push_back(name);
    else if (given->second.shape() != tensor.shape())
      wrong.push_back(text(name, " must be ", tensor.shape(), " and is ", given->second.shape()));
  }
  std::set<std::string_view> known;
  for (const auto& [name, tensor] : own) known.insert(name);
  for (const auto& [name, array] : state)
    if (!known.contains(name)) unexpected.push_back(name);
  std::string problems;
  const auto report = [&](const char* what, const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 10;
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i)
      problems += i > 0 ? ", " + names[i] : text(problems.empty() ? "" : "; ", what, ": ", names[i]);
    if (names.size() > kShown) problems += text(" and ", names.size() - kShown, " more");
  };
  if (strict) report("missing", missing);
  if (strict) report("unexpected", unexpected);
  report("wrong shape", wrong);
  if (!problems.empty())
    fail_value("load_state_dict: the names and shapes must be those of ", class_name(), "; got ", problems);
  // All or nothing: what may fail, or be interrupted, comes before the first weight changes.
  std::vector<std::pair<Array, Array>> changes;
  std::set<std::shared_ptr<Buffer>> mine;  // given weights may lie in these
  for (const auto& [name, tensor] : own) mine.insert(tensor.layout().buffer());
  for (const auto& [name, tensor] : own) {
    const auto given = state.find(name);
    if (given == state.end()) continue;
    Array numbers = packed(given->second).cast(tensor.dtype());
    if (mine.contains(numbers.buffer())) numbers = numbers.clone();
    if (given->second.dtype() != tensor.dtype()) numbers.buffer()->bypass_cache();
    changes.emplace_back(tensor.data(), std::move(numbers));
  }
  const Uninterrupted whole;
  for (const auto& [weight, numbers] : changes) write(weight, numbers);
  for (const ModulePtr& module : modules()) module->changed();
}

namespace {

// Whether it has no numbers yet, as it is about to be loaded.
bool undefined(const Tensor& t) { return SkipInit::active() && t.impl()->is_parameter; }

}  // namespace

void Module::to(DType dtype) {
  if (!is_floating(dtype)) fail_type("to: dtype must be float32, float64 or bfloat16; got ", dtype);
  struct Change {
    Tensor tensor;
    Array data, grad;
  };
  std::vector<Change> changes;  // all or nothing
  for (const Tensor& tensor : existing_state()) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) continue;
    const Array grad = tensor.impl()->grad.get();
    Array numbers = undefined(tensor) ? Array(tensor.shape(), dtype) : packed(numbers_of(tensor)).cast(dtype);
    changes.push_back({tensor, std::move(numbers), grad.defined() ? grad.cast(dtype) : grad});
  }
  for (Change& change : changes) {
    change.tensor.layout().buffer()->bypass_cache();  // the cache would keep what nothing of this size asks for again
    change.tensor.impl()->set(std::move(change.data));
    if (change.grad.defined()) change.tensor.impl()->grad.set(std::move(change.grad));
  }
  for (const ModulePtr& module : modules()) {
    module->bfloat16_ = false;
    module->dtype_ = dtype;
    module->changed();
  }
}

void Module::to_bfloat16() {
  to(DType::float32);
  for (const Tensor& tensor : existing_state())
    if (is_floating(tensor.dtype()) && !undefined(tensor)) ops::round_to_bfloat16(tensor);
  for (const ModulePtr& module : modules()) {
    module->bfloat16_ = true;
    module->changed();
  }
}

void Module::round_to_bfloat16(const std::vector<std::string>& names) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  for (const auto& [name, tensor] : named_state())
    if (wanted.contains(name)) ops::round_to_bfloat16(tensor);
}

void Module::zero_grad() {
  for (const Tensor& parameter : parameters()) parameter.impl()->grad.set({});
}

void Module::set_training(bool training) {
  for (const ModulePtr& module : modules()) module->training_ = training;
}

}  // namespace qkv::nn
