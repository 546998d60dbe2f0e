// Module: parameters, buffers and modules under names, each kind in the order in which its first ones were made.
#pragma once

#include <atomic>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "core/locks.h"
#include "core/noncopyable.h"
#include "nn/parameter.h"

namespace qkv::nn {

class Module;
using ModulePtr = std::shared_ptr<Module>;

// Arrays under full names, such as "layers.0.linear1.weight".
using StateDict = std::map<std::string, Array>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// The arguments of a constructor, for printing a module and for making an equal one.
using Fields = std::vector<std::pair<std::string, std::variant<bool, Index, double, std::string>>>;  // a dict
using Value = std::variant<std::monostate, bool, Index, double, std::string, std::vector<Index>, Fields>;
using Config = std::vector<std::pair<std::string, Value>>;
inline Value value_of(const IndexList& sizes) { return std::vector<Index>(sizes.begin(), sizes.end()); }
inline Value value_of(std::pair<Index, Index> window) { return std::vector<Index>{window.first, window.second}; }
template <std::convertible_to<Value> T> Value value_of(const T& value) { return value; }
template <class T> Value value_of(const std::optional<T>& value) { return value ? value_of(*value) : Value(); }
// For overloads of for_fields(options, field), which call field(name, member) for each that has a name in Python.
template <class Options, class T>
concept FieldsOf = std::same_as<std::remove_const_t<Options>, T>;

// While one lives, no module is in training mode on this thread, even if set. Other threads do not notice.
class Evaluating : NonCopyable {
 public:
  Evaluating() : before_(std::exchange(active_, true)) {}
  ~Evaluating() { active_ = before_; }
  static bool active() { return active_; }

 private:
  static inline constinit thread_local bool active_ = false;
  bool before_;
};

class Module : public std::enable_shared_from_this<Module>, NonCopyable {
 public:
  Module() = default;
  virtual ~Module();

  virtual std::string class_name() const { return "Module"; }
  virtual Config config() const { return {}; }
  // Modules of one argument; the others have a forward of their own.
  virtual Tensor forward(const Tensor& x);

  struct Entry {
    enum class Kind { parameter, buffer, module };
    std::string name;
    Kind kind;
    Tensor tensor;  // not defined for modules, and for a parameter that is absent (a bias that was not wanted)
    ModulePtr module;
    std::function<void(const Entry&)> bind;  // tells the C++ member that stands for this entry
    bool persistent = true;                  // part of the state; a buffer may not be
  };
  using Entries = std::vector<Entry>;
  const Entries& entries() const { return *entries_; }
  // The entries as they are now, even if some are registered or removed while they are in use, by other threads too.
  std::shared_ptr<const Entries> snapshot() const {
    const Lock lock(mutex_of(this));
    return entries_;
  }
  const Entry* find(const std::string& name) const;
  // In how many places this module is registered.
  Index owners() const { return owners_; }

  // A name that exists already is replaced in its place by another of its kind.
  void register_parameter(const std::string& name, Tensor parameter);
  void register_buffer(const std::string& name, Tensor buffer, bool persistent = true);
  void register_module(const std::string& name, ModulePtr module);
  void remove(const std::string& name);

  // A module's own come before those of its parts, its parameters before its buffers.
  NamedTensors named_parameters() const;
  NamedTensors named_state() const;  // parameters and persistent buffers
  NamedTensors torch_state();        // the same under the names that PyTorch's modules have
  Tensors parameters() const;
  // This one first, under ""; its pointer may not own it.
  std::vector<std::pair<std::string, ModulePtr>> named_modules();
  std::vector<ModulePtr> modules();
  Index num_parameters() const;

  // Copies the arrays into parameters and buffers. Everything that is wrong is named in one message, and nothing is
  // changed then.
  void load_state(StateDict state, bool strict);
  void to(DType dtype);
  // Rounds parameters and buffers to bfloat16, as which linear layers then read them where no gradient is wanted. They
  // stay float32 arrays; to(dtype) ends it.
  void to_bfloat16();
  void round_to_bfloat16(const std::vector<std::string>& names);  // these alone
  void set_own_bfloat16(bool on) { bfloat16_ = on; }              // not that of its parts
  bool in_bfloat16() const { return bfloat16_.load(std::memory_order_relaxed); }
  // What to() asked for last: the dtype of parameters that are made or assigned later.
  DType dtype() const { return dtype_; }
  void set_own_dtype(DType dtype) { dtype_ = dtype; }
  void zero_grad();
  void set_training(bool training);
  void set_own_training(bool training) { training_ = training; }  // not that of its parts
  bool own_training() const { return training_.load(std::memory_order_relaxed); }
  bool training() const { return own_training() && !Evaluating::active(); }

 protected:
  // Members that follow their entries: layer code uses the member, names are for everybody else.
  // One that exists is replaced by another of its kind, and by none only if it may be `absent`.
  enum class Absent { never, allowed };
  void own_parameter(const std::string& name, Tensor& member, Tensor value, Absent absent = Absent::never);
  template <class M>
  void own_module(const std::string& name, std::shared_ptr<M>& member, std::shared_ptr<M> value,
                  Absent absent = Absent::never) {
    add_entry({name, Entry::Kind::module, Tensor(), value, [&member, this, name, absent](const Entry& entry) {
                 auto cast = std::dynamic_pointer_cast<M>(entry.module);
                 const bool none = entry.kind == Entry::Kind::module && !entry.module;
                 if (!cast && !(none && (!member || absent == Absent::allowed)))
                   wrong_entry(name, member ? name_of(*member) : "a module of its own kind");
                 member = std::move(cast);
               }});
  }

  // Called before names are matched: translates names of other libraries, makes parameters whose sizes were unknown.
  virtual void adapt_state(StateDict& state, const std::string& prefix);
  virtual void torch_names(NamedTensors& state, const std::string& prefix) const;  // the way back
  // Called when a parameter or the dtype may have changed.
  virtual void changed() {}
  // Called by all that need the parameters: throws if they do not exist yet.
  virtual void require_parameters() const {}

 private:
  void add_entry(Entry entry);
  void erase_entry(const Entry& entry);  // under mutex_of(this)
  Entries& own_entries();                // to be changed under mutex_of(this)
  [[noreturn]] void wrong_entry(const std::string& name, const std::string& wanted) const;
  static std::string name_of(const Module& module) { return module.class_name(); }
  template <class Enter, class Leaf> static void walk(const Module& root, Enter enter, Leaf leaf);
  // Tensors that exist, also where others do not exist yet.
  Tensors existing_state() const;
  ModulePtr self();

  // Shared with snapshots; changed in place where there are none.
  std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
  std::unordered_map<std::string, std::size_t> positions_;  // of names, where there are many
  Index owners_ = 0;
  std::atomic<bool> training_{true};  // other threads may be computing
  std::atomic<bool> bfloat16_{false};
  DType dtype_ = DType::float32;
};

}  // namespace qkv::nn
