// All that is used of pybind11 beside its documented interface, each with the reason. No other file names pybind11's
// namespace `detail`, so a new version of pybind11 is a matter of this one.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <type_traits>
#include <typeinfo>

#include "bindings/call/core_classes.h"

namespace qkv::bindings {

// Whether the C++ object exists, or each of them where a class is derived from several; `object` must be of a class of
// the core. A cast does not say: of an object whose __init__ has not run, pybind11 returns uninitialised memory.
inline bool is_initialised(pybind11::handle object, bool may_be_several = true) {
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(object.ptr());
  // The collector may come while pybind11 makes the first object of a class, before it has a place for the C++ object.
  if (!instance->simple_layout && instance->nonsimple.values_and_holders == nullptr) return false;
  if (instance->simple_layout || !may_be_several) return instance->get_value_and_holder().value_ptr() != nullptr;
  for (const auto& place : pybind11::detail::values_and_holders(instance))
    if (place.value_ptr() == nullptr) return false;
  return true;
}

// What an object of Tensor's class or of one derived from it holds; null before its __init__. A cast to the same takes
// 30 ns more, as it looks for the class.
inline const std::shared_ptr<TensorImpl>* held_tensor(PyObject* object) {
  const auto place = reinterpret_cast<pybind11::detail::instance*>(object)->get_value_and_holder();
  return place.holder_constructed() ? &place.holder<std::shared_ptr<TensorImpl>>() : nullptr;
}

// Python's object for one of C++, null if there is none. A cast would make one, which the collector must not.
inline PyObject* existing_object(const void* object, const std::type_info& type) {
  const auto* known = pybind11::detail::get_type_info(type);
  return known == nullptr ? nullptr : pybind11::detail::get_object_handle(object, known).ptr();
}

// Makes `object`, of Tensor's class or of one derived from it, hold the Tensor. By pybind11's __init__ it takes 190 ns
// more, a seventh of an addition of qkv.torch.
inline void hold_tensor(PyObject* object, const std::shared_ptr<TensorImpl>& tensor) {
  auto* instance = reinterpret_cast<pybind11::detail::instance*>(object);
  static const auto* type = pybind11::detail::get_type_info(typeid(TensorImpl));
  instance->get_value_and_holder().value_ptr() = tensor.get();
  type->init_instance(instance, &tensor);
}

// NumPy's own setflags takes 110 ns.
inline void set_read_only(const pybind11::array& array) {
  using pybind11::detail::npy_api;
  pybind11::detail::array_proxy(array.ptr())->flags &= ~npy_api::NPY_ARRAY_WRITEABLE_;
}

// Defined by convert.cpp.
Tensor tensor_or_undefined(pybind11::handle object);
pybind11::object object_of(const Tensor& tensor);

}  // namespace qkv::bindings

// Conversions of our own, as the documentation tells to define them; those of classes end in pybind11's.
namespace pybind11::detail {

template <qkv::bindings::Bound T> struct type_caster<T> : type_caster_base<T> {
  bool load(handle source, bool convert) {
    qkv::bindings::check_initialised<T>(source);
    return type_caster_base<T>::load(source, convert);
  }
};

template <qkv::bindings::Bound T>
struct type_caster<std::shared_ptr<T>> : copyable_holder_caster<T, std::shared_ptr<T>> {
  bool load(handle source, bool convert) {
    if (std::is_same_v<T, qkv::TensorImpl> && source.is_none()) return false;  // as the object of a method: null
    qkv::bindings::check_initialised<T>(source);
    return copyable_holder_caster<T, std::shared_ptr<T>>::load(source, convert);
  }
};

// A Tensor is a handle of a shared TensorImpl, which is what Python's class Tensor wraps; so the same Tensor is the
// same Python object for as long as anything holds it.
template <> struct type_caster<qkv::Tensor> {
  PYBIND11_TYPE_CASTER(qkv::Tensor, const_name("Tensor"));
  bool load(handle source, bool) {
    value = qkv::bindings::tensor_or_undefined(source);
    return value.defined();
  }
  static handle cast(const qkv::Tensor& tensor, return_value_policy, handle) {
    return qkv::bindings::object_of(tensor).release();
  }
};

}  // namespace pybind11::detail
