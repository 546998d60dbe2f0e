// Module: what Python adds to it is attribute access by name, copying, and subclasses.
#include "bindings/modules/layer_class.h"

#include "autograd/packed_matrix.h"
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/modules/call_attention.h"
#include "bindings/modules/defined_call.h"
#include "bindings/modules/entries.h"
#include "bindings/tensor/tensor_class.h"
#include "bindings/values/class.h"

namespace qkv::bindings {
namespace {

// A module written in Python may replace an attention.
class OverridableModule : public Overridable<Module>, public nn::AnyAttention {
 public:
  using Overridable<Module>::Overridable;
  using Overridable<Module>::forward;
  Tensor forward(const Tensor& queries, const Tensor& keys, const Tensor& values,
                 const nn::AttentionCall& call) override {
    const InPython python;
    const DefinedCall own = defined_call(object);
    if (!own) fail_type(class_name(), ": forward must be defined because the module stands in for an attention");
    const bool keys_given = own.takes("keys", true) || own.needs(3);
    return call_attention(own, nullptr, ops::Causal::none, keys_given, queries, keys, values, call);
  }
};

// The module under "" and its parts, as Python's objects.
std::vector<std::pair<std::string, py::object>> named_modules(const py::object& self) {
  std::vector<std::pair<std::string, py::object>> found;
  for (const auto& [name, module] : self.cast<Module&>().named_modules())
    found.emplace_back(name, found.empty() ? self : py::cast(module));
  return found;
}

std::vector<py::object> modules(const py::object& self) {
  std::vector<py::object> found;
  for (const ModulePtr& module : self.cast<Module&>().modules())
    found.push_back(found.empty() ? self : py::cast(module));
  return found;
}

py::object in_mode(const py::object& self, bool training) {
  self.cast<Module&>().set_training(training);
  return self;
}

EntryKind kind_from(const std::string& name) {
  if (name == "parameter") return EntryKind::parameter;
  if (name == "buffer") return EntryKind::buffer;
  if (name == "module") return EntryKind::module;
  fail_value("Module: kind must be parameter, buffer or module; got ", name);
}

Array state_array(const std::string& name, py::handle value) {
  if (is_tensor(value)) return packed(value.cast<Tensor>().data());
  py::object array = py::reinterpret_borrow<py::object>(value);
  if (py::hasattr(array, "detach") && !py::isinstance<py::array>(array)) array = array.attr("detach")();  // PyTorch's
  Call call("load_state_dict");
  return call.any(array, name.c_str()).data();
}

void load_state_dict(Module& module, py::handle state, bool strict) {
  if (!py::hasattr(state, "items"))
    fail_type("load_state_dict: state_dict must be a dict from names to arrays; got ", type_name(state));
  nn::StateDict arrays;
  for (const py::handle item : state.attr("items")()) {
    const auto pair = py::reinterpret_borrow<py::sequence>(item);
    if (!py::isinstance<py::str>(pair[0]))
      fail_type("load_state_dict: names must be strings; got ", described(pair[0]));
    const std::string name = py::str(pair[0]);
    arrays[name] = state_array(name, pair[1]);
  }
  const ExclusiveAccess alone;
  module.load_state(std::move(arrays), strict);
}

}  // namespace

void bind_module(Functions& m) {
  Class<Module, OverridableModule, py::smart_holder> cls(m, "Module", py::dynamic_attr(), R"doc(
Base of all layers and models: holds parameters, buffers and other modules under names.

A subclass makes its parts in ``__init__``, after ``super().__init__()``, and defines ``forward``; calling the module
calls ``forward``. Assigning a :class:`Parameter` or a :class:`Module` to an attribute registers it. A new module is in
training mode.

Examples
--------
>>> class Twice(qkv.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.linear = qkv.nn.Linear(4, 4)
...     def forward(self, x):
...         return self.linear(self.linear(x))
>>> Twice()(np.ones((2, 4))).shape
(2, 4)
)doc");
  def_init(cls, "");
  cls.def("__call__",
          [](const py::object& self, const py::args& args, const py::kwargs& kwargs) {
            const py::object forward = self.attr("forward");
            const auto run = [&](const py::args& given) {
              return in_class_of(given, kwargs, call_python(forward, given, kwargs));
            };
            return nn::Observer::any() ? observed_call(self, args, run) : run(args);
          })
      .def("__getattr__", &get_attribute)
      .def("__setattr__", &set_attribute)
      .def("__delattr__", &delete_attribute)
      .def("__getstate__", &get_state)
      .def("__setstate__", &set_state)
      .def("__repr__",
           [](const py::object& self) -> py::object {
             // Debuggers and tracebacks show modules whose constructor has not run.
             if (!is_initialised(self))
               return py::str("{}(not initialised)").format(py::type::of(self).attr("__name__"));
             return callback("module_repr")(self);
           })
      .def("_repr_html_", [](const py::object& self) { return callback("module_html")(self); })
      .def("__dir__",
           [](const py::object& self) {
             py::list names = py::module_::import("builtins").attr("object").attr("__dir__")(self);
             if (!is_initialised(self)) return names;
             for (const auto& entry : *self.cast<Module&>().snapshot()) names.append(entry.name);
             return names;
           })
      .def("_config", &config_dict)
      .def("_entries",
           [](const py::object& self, const std::string& kind) { return entries_of(self, kind_from(kind)); })
      .def("_register(kind, name, value, persistent=True)",
           [](const py::object& self, const std::string& kind, const std::string& name, const py::object& value,
              bool persistent) { register_entry(self, kind_from(kind), name, value, persistent); })
      .def("_named_state", &Module::named_state)
      .def("_set_own_training", &Module::set_own_training)
      .def("_round_to_bfloat16(names)",
           [](Module& self, const std::vector<std::string>& names) {
             const ExclusiveAccess alone;
             self.round_to_bfloat16(names);
           })
      .def("_children",
           [](const Module& self) {
             py::list found;
             for (const auto& entry : *self.snapshot())
               if (entry.module) found.append(py::make_tuple(entry.name, entry.module));
             return found;
           })
      .def_property("training", "True in training mode.", &Module::training)
      .def("register_buffer(name, value, persistent=True)",
           "Keep an array that is not learned; unless `persistent` is False it belongs to the state.",
           [](const py::object& self, const std::string& name, py::handle value, bool persistent) {
             const py::object kept =
                 value.is_none() ? py::none() : py::cast(Tensor(copy_of(value, py::none(), "register_buffer")));
             register_entry(self, EntryKind::buffer, name, kept, persistent);
           })
      .def("register_parameter(name, parameter)", "As assigning a Parameter to the attribute of that name.",
           [](const py::object& self, const std::string& name, py::handle value) {
             if (!value.is_none() && !is_parameter(value))
               fail_type("register_parameter: parameter must be a Parameter; got ", type_name(value));
             register_entry(self, EntryKind::parameter, name, py::reinterpret_borrow<py::object>(value));
           })
      .def("register_module(name, module)", "As assigning a Module to the attribute of that name.",
           [](const py::object& self, const std::string& name, const py::object& value) {
             if (!value.is_none() && !py::isinstance<Module>(value))
               fail_type("register_module: module must be a Module; got ", type_name(value));
             register_entry(self, EntryKind::module, name, value);
           })
      .def("parameters", "All parameters, those of the parts included, in order of creation; a shared one once.",
           &Module::parameters)
      .def("named_parameters", "List of (name, parameter), such as (\"layers.0.linear1.weight\", ...).",
           &Module::named_parameters)
      .def("named_modules", "List of (name, module); the module itself stands first, under \"\".", &named_modules)
      .def("modules", "The module and all its parts.", &modules)
      .def("children", "The parts of this module, without their parts.",
           [](const Module& self) {
             std::vector<ModulePtr> found;
             for (const auto& entry : *self.snapshot())
               if (entry.module) found.push_back(entry.module);
             return found;
           })
      .def("apply(f)", "Call f with the module and each of its parts; returns the module.",
           [](const py::object& self, const py::function& f) {
             for (const py::object& module : modules(self)) f(module);
             return self;
           })
      .def("num_parameters", "How many numbers the module learns.", &Module::num_parameters)
      .def("state_dict(*, torch_names=False)", R"doc(
Copies of all parameters and buffers by name; later training does not change them.

Parameters
----------
torch_names : bool, default False
    Give the names of PyTorch's modules, which load such a state. They differ in the input projections of
    multi-head attention: ``q_proj.weight`` and its like are rows of ``in_proj_weight (3 M, M)`` and
    ``in_proj_bias (3 M)``, or ``q_proj_weight`` and its like where keys or values have another size. Layers load
    both.

Raises
------
ValueError
    If heads share keys and values (``num_kv_heads``) and `torch_names` is True: PyTorch has no name for them.

Examples
--------
>>> state = qkv.nn.MultiHeadAttention(8, 2).state_dict(torch_names=True)
>>> {name: tensor.shape for name, tensor in state.items()}
{'in_proj_weight': (24, 8), 'in_proj_bias': (24,), 'out_proj.weight': (8, 8), 'out_proj.bias': (8,)}
)doc",
           [](Module& self, bool torch_names) {
             py::dict state;
             for (auto& [name, tensor] : torch_names ? self.torch_state() : self.named_state())
               state[name.c_str()] = Tensor(copy_of_numbers(tensor));
             return state;
           })
      .def("load_state_dict(state_dict, strict=True)", R"doc(
Copy arrays (NumPy's, Tensors, PyTorch's) into the parameters and buffers of the same names, cast to their dtype.

Raises
------
ValueError
    One message with all names that are missing, unexpected or wrongly shaped; nothing is changed then. With
    ``strict=False`` missing and unexpected names are passed over.
)doc",
           &load_state_dict)
      .def("to(dtype)", R"doc(
    Convert parameters and buffers; returns the module.

    Parameters
    ----------
    dtype : str or numpy.dtype
        ``"float32"``, ``"float64"`` or ``"bfloat16"``. With bfloat16, numbers are rounded to the nearest one, ties to
        even, and stay float32 arrays; linear layers, and all that is built of them, read their weights as bfloat16
        where no gradient is recorded, and sum in float32. That halves the bytes that a product reads; a CPU with
        AVX512-BF16 also multiplies bfloat16 numbers, which rounds the layers' inputs too. Another ``to`` ends it.

    Examples
    --------
    >>> layer = qkv.nn.Linear(2, 2).to("bfloat16")
    >>> with qkv.no_grad():
    ...     layer([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).shape
    (3, 2)
)doc",
           [](const py::object& self, py::handle dtype) {
             if (dtype.is_none()) fail_type("to: dtype must be float32, float64 or bfloat16; got None");
             const bool bfloat16 = is_bfloat16(dtype);
             const DType wanted = bfloat16 ? DType::float32 : dtype_from(dtype, "to");
             const ExclusiveAccess alone;
             if (bfloat16) self.cast<Module&>().to_bfloat16();
             else self.cast<Module&>().to(wanted);
             return self;
           })
      .def("train(mode=True)", "Training mode: dropout is active. Returns the module.",
           [](const py::object& self, bool mode) { return in_mode(self, mode); })
      .def("eval", "Evaluation mode: dropout does nothing. Returns the module.",
           [](const py::object& self) { return in_mode(self, false); })
      .def("zero_grad", "Forget the gradients of all parameters.", &Module::zero_grad);
}

}  // namespace qkv::bindings
