// Objects whose __init__ has not finished. pybind11 makes the Python object first and the C++ object in __init__; asked
// for the C++ object in between (a method before super().__init__(), after an __init__ that raised, on
// cls.__new__(cls)), its casters hand out uninitialised memory. Ours throw; every class that Python sees goes through
// them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <type_traits>

#include "autograd/tensor.h"
#include "core/random.h"
#include "nn/kv_cache.h"
#include "nn/module.h"

namespace qkv::bindings {

// The classes that are bound, and those derived from them.
template <class T>
concept Bound = requires { sizeof(T); } && (std::is_base_of_v<nn::Module, T> || std::is_base_of_v<TensorImpl, T> ||
                                            std::is_base_of_v<nn::KVCache, T> || std::is_base_of_v<Generator, T>);

// Whether the C++ object exists; `object` must be of a bound class.
inline bool is_initialised(pybind11::handle object) {
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(object.ptr());
  // The collector may come while pybind11 makes the first object of a class, before it has a place for the C++ object.
  if (!instance->simple_layout && instance->nonsimple.values_and_holders == nullptr) return false;
  return instance->get_value_and_holder().value_ptr() != nullptr;
}

// A TypeError that names the object's class.
[[noreturn]] void fail_uninitialised(pybind11::handle object);

}  // namespace qkv::bindings

namespace pybind11::detail {

template <qkv::bindings::Bound T> class type_caster<T> : public type_caster_base<T> {
 public:
  bool load(handle source, bool convert) { return this->template load_impl<type_caster>(source, convert); }

 protected:
  friend class type_caster_generic;
  void load_value(value_and_holder&& object) {
    if (object.value_ptr() == nullptr) qkv::bindings::fail_uninitialised(reinterpret_cast<PyObject*>(object.inst));
    type_caster_base<T>::load_value(std::move(object));
  }
};

template <qkv::bindings::Bound T>
class type_caster<std::shared_ptr<T>> : public copyable_holder_caster<T, std::shared_ptr<T>> {
  using Base = copyable_holder_caster<T, std::shared_ptr<T>>;

 public:
  bool load(handle source, bool convert) {
    if (std::is_same_v<T, qkv::TensorImpl> && source.is_none()) return false;  // as the object of a method: null
    if (!this->template load_impl<type_caster>(source, convert)) return false;
    this->sh_load_helper.maybe_set_python_instance_is_alias(source);
    return true;
  }

 protected:
  friend class type_caster_generic;
  void load_value(value_and_holder&& object) {
    if (object.value_ptr() == nullptr) qkv::bindings::fail_uninitialised(reinterpret_cast<PyObject*>(object.inst));
    Base::load_value(std::move(object));
  }
};

}  // namespace pybind11::detail
