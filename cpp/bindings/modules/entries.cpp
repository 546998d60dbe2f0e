// Entries of a module as attributes of its Python object, and the state by which it is copied and pickled.
#include "bindings/modules/entries.h"

#include "bindings/modules/layer_class.h"
#include "bindings/values/class.h"
#include "nn/init.h"

namespace qkv::bindings {
namespace {

py::object to_python(const nn::Value& value) {
  return std::visit(
      [](const auto& v) -> py::object {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, std::monostate>) return py::none();
        else if constexpr (std::is_same_v<V, std::vector<Index>>) return py::tuple(py::cast(v));
        else if constexpr (std::is_same_v<V, nn::Fields>) return py::dict(py::cast(v));
        else return py::cast(v);
      },
      value);
}

// What Python gets for an entry: the object that the instance's dict keeps under its name, if there is one.
py::object object_of(const py::dict& attributes, const Module::Entry& entry) {
  const py::str name = entry.name;
  if (attributes.contains(name)) return attributes[name];
  return entry.kind == EntryKind::module ? py::cast(entry.module) : py::cast(entry.tensor);
}

py::dict instance_dict(const py::object& self) { return self.attr("__dict__"); }

Module& initialised(const py::object& self, const std::string& name) {
  if (!is_initialised(self))
    throw py::attribute_error(text(
        type_name(self), ": super().__init__() must be called before attributes are used; got ", name, " before it"));
  return self.cast<Module&>();
}

}  // namespace

py::object get_attribute(const py::object& self, const std::string& name) {
  const Module::Entry* entry = initialised(self, name).find(name);
  if (entry == nullptr) fail_attribute(self, py::str(name));
  const py::dict attributes = instance_dict(self);
  py::object object = object_of(attributes, *entry);
  // Kept so that the same object comes back as long as the module lives, with everything that was set on it.
  if (!object.is_none()) attributes[name.c_str()] = object;
  return object;
}

bool is_parameter(py::handle value) { return is_tensor(value) && value.cast<Tensor>().impl()->is_parameter; }

// The class written in C++ that this object is, or is a subclass of.
py::object bound_class(const py::object& self) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(core_class(Py_TYPE(self.ptr()))));
}

// Options belong to constructors: what a layer would not follow is refused. Whether it shows the value already.
bool has_option(const py::object& self, const py::str& name, const py::object& value) {
  static auto* known = new py::dict();  // the names of each class; never let go: Python may be gone by then
  const py::object core_class = bound_class(self);
  PyObject* names = PyDict_GetItem(known->ptr(), core_class.ptr());
  if (names == nullptr) {
    (*known)[core_class] = callback("options_of")(core_class);
    names = PyDict_GetItem(known->ptr(), core_class.ptr());
  }
  return PySet_Contains(names, name.ptr()) == 1 &&
         callback("check_assignment")(self, core_class, name, value).cast<bool>();
}

void set_attribute(const py::object& self, const py::str& name, const py::object& value) {
  const std::string key = name;
  const bool module = py::isinstance<Module>(value);
  const bool parameter = !module && is_parameter(value);
  const Module::Entry* entry = module || parameter || is_initialised(self) ? initialised(self, key).find(key) : nullptr;
  if (module || parameter) return register_entry(self, module ? EntryKind::module : EntryKind::parameter, key, value);
  if (entry == nullptr) {
    if (key == "forward" && bound_class(self).is(py::type::of(self)))
      fail_type(type_name(self),
                ": forward must be defined by a subclass because modules that contain this one call no other; got an "
                "assignment to an object");
    if (is_initialised(self) && has_option(self, name, value)) return;
    if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) throw py::error_already_set();
    return;
  }
  if (!value.is_none() && (entry->kind != EntryKind::buffer || !is_tensor(value)))
    fail_type(type_name(self), ": ", key, " must be a ",
              entry->kind == EntryKind::module   ? "Module"
              : entry->kind == EntryKind::buffer ? "Tensor"
                                                 : "Parameter",
              " because it is one already; got ", type_name(value));
  register_entry(self, entry->kind, key, value, entry->persistent);
}

void delete_attribute(const py::object& self, const py::str& name) {
  Module& module = initialised(self, name);
  if (module.find(name) != nullptr) {
    module.remove(name);
    instance_dict(self).attr("pop")(name, py::none());
  } else if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) {
    throw py::error_already_set();
  }
}

// {name: object} of all entries of a kind, in their order.
py::dict entries_of(const py::object& self, EntryKind kind) {
  const py::dict own = instance_dict(self);
  py::dict found;
  const auto entries = self.cast<Module&>().snapshot();
  for (const Module::Entry& entry : *entries)
    if (entry.kind == kind) found[entry.name.c_str()] = object_of(own, entry);
  return found;
}

void register_entry(const py::object& self, EntryKind kind, const std::string& name, const py::object& value,
                    bool persistent) {
  Module& module = initialised(self, name);
  const Module::Entry* entry = module.find(name);
  std::optional<ExclusiveAccess> alone;  // others may be computing with what has a name that the layer uses itself
  if (entry != nullptr && entry->bind) alone.emplace();
  if (kind == EntryKind::module) {
    module.register_module(name, value.is_none() ? nullptr : value.cast<ModulePtr>());
  } else {
    const Tensor tensor = value.is_none() ? Tensor() : value.cast<Tensor>();
    if (kind == EntryKind::parameter) module.register_parameter(name, tensor);
    else module.register_buffer(name, tensor, persistent);
  }
  if (value.is_none()) instance_dict(self).attr("pop")(name, py::none());
  else instance_dict(self)[name.c_str()] = value;
}

py::dict config_dict(const Module& module) {
  py::dict config;
  for (const auto& [name, value] : module.config()) config[name.c_str()] = to_python(value);
  return config;
}

// Everything but what a layer remembers of its last call.
py::dict get_state(const py::object& self) {
  const Module& module = self.cast<Module&>();
  py::list entries;
  py::dict attributes = instance_dict(self).attr("copy")();
  const auto parts = module.snapshot();
  for (const Module::Entry& entry : *parts) {
    entries.append(
        py::make_tuple(entry.name, static_cast<int>(entry.kind), object_of(attributes, entry), entry.persistent));
    attributes.attr("pop")(entry.name, py::none());
  }
  py::dict state;
  state["config"] = config_dict(module);
  state["entries"] = entries;
  state["attributes"] = attributes;
  state["training"] = module.own_training();
  state["bfloat16"] = module.in_bfloat16();
  state["dtype"] = std::string(name(module.dtype()));
  return state;
}

void set_state(const py::object& self, const py::dict& state) {
  const nn::SkipInit skip;
  bound_class(self).attr("__init__")(self, **state["config"].cast<py::dict>());
  Module& module = self.cast<Module&>();
  for (const py::handle item : state["entries"]) {
    const auto entry = py::reinterpret_borrow<py::tuple>(item);
    const bool persistent = entry.size() < 4 || entry[3].cast<bool>();  // older pickles do not say
    register_entry(self, static_cast<EntryKind>(entry[1].cast<int>()), entry[0].cast<std::string>(), entry[2],
                   persistent);
  }
  instance_dict(self).attr("update")(state["attributes"]);
  module.set_own_training(state["training"].cast<bool>());
  module.set_own_bfloat16(state["bfloat16"].cast<bool>());
  if (state.contains("dtype")) module.set_own_dtype(dtype_from(state["dtype"], "Module"));  // older pickles have none
}

}  // namespace qkv::bindings
