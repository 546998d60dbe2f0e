#include "bindings/parameter_groups.h"

#include <algorithm>
#include <span>

#include "bindings/call_python.h"
#include "bindings/class.h"
#include "bindings/options.h"
#include "core/error.h"

namespace qkv::bindings {
namespace {

using nn::Optimizer;
using nn::OptimizerSettings;
using nn::ParameterGroup;

// How Python reads and assigns an option.
struct Option {
  const char* name;
  py::object (*get)(const OptimizerSettings&);
  void (*set)(OptimizerSettings&, py::handle value, const char* operation, const char* name);
};

// A number, or a Tensor that holds one.
double one_number(py::handle value, const char* operation, const char* name) {
  return required_number_from(
      is_tensor(value) ? py::object(value.attr("item")()) : py::reinterpret_borrow<py::object>(value), operation, name);
}

template <double OptimizerSettings::* kMember> Option number(const char* name) {
  return {name, [](const OptimizerSettings& settings) -> py::object { return py::float_(settings.*kMember); },
          [](OptimizerSettings& settings, py::handle value, const char* operation, const char* own) {
            settings.*kMember = one_number(value, operation, own);
          }};
}

py::object get_nesterov(const OptimizerSettings& settings) { return py::bool_(settings.nesterov); }
void set_nesterov(OptimizerSettings& settings, py::handle value, const char* operation, const char* name) {
  if (!PyBool_Check(value.ptr())) fail_type(operation, ": ", name, " must be True or False; got ", described(value));
  settings.nesterov = value.cast<bool>();
}

py::object get_betas(const OptimizerSettings& settings) { return py::make_tuple(settings.beta1, settings.beta2); }
void set_betas(OptimizerSettings& settings, py::handle value, const char* operation, const char* name) {
  if (!(py::isinstance<py::tuple>(value) || py::isinstance<py::list>(value)) || py::len(value) != 2)
    fail_type(operation, ": ", name, " must be two numbers because they weigh two averages; got ", described(value));
  const py::sequence two = py::reinterpret_borrow<py::sequence>(value);
  settings.beta1 = one_number(py::object(two[0]), operation, name);
  settings.beta2 = one_number(py::object(two[1]), operation, name);
}

std::span<const Option> options(const Optimizer& optimizer) {
  static const Option sgd[] = {number<&OptimizerSettings::lr>("lr"),
                               number<&OptimizerSettings::weight_decay>("weight_decay"),
                               number<&OptimizerSettings::momentum>("momentum"),
                               {"nesterov", get_nesterov, set_nesterov}};
  static const Option adam[] = {number<&OptimizerSettings::lr>("lr"),
                                number<&OptimizerSettings::weight_decay>("weight_decay"),
                                {"betas", get_betas, set_betas},
                                number<&OptimizerSettings::eps>("eps")};
  if (dynamic_cast<const nn::SGD*>(&optimizer) != nullptr) return sgd;
  return adam;
}

// Why these names are not "params" and options, or None.
py::object misfit(const Optimizer& optimizer, py::handle names, const std::string& operation) {
  py::list known;
  known.append(py::make_tuple("params", true));
  for (const Option& option : options(optimizer)) known.append(py::make_tuple(option.name, false));
  py::list given;
  for (const py::handle name : names) given.append(py::str(name));
  return callback("misfit")(operation, known, 0, false, 0, given);
}

[[noreturn]] void fail_key(const ParameterGroup& group, const py::str& name) {
  throw py::key_error(py::str(misfit(group.optimizer(), py::make_tuple("params", name), group.optimizer().name())));
}

py::object option(const ParameterGroup& group, const py::str& name) {
  if (name.equal(py::str("params"))) return py::tuple(py::cast(group.parameters()));
  for (const Option& own : options(group.optimizer()))
    if (name.equal(py::str(own.name))) return own.get(group.settings());
  fail_key(group, name);
}

// All or none of them.
void set_options(ParameterGroup& group, const py::dict& values) {
  const std::string& operation = group.optimizer().name();
  OptimizerSettings settings = group.settings();
  for (const auto& entry : values) {
    const py::handle name = entry.first;
    if (name.equal(py::str("params")))
      fail_type(operation,
                ": params of a group cannot be replaced because what is remembered belongs to them; add others by "
                "optimizer.add_param_group");
    const auto known = options(group.optimizer());
    const auto own = std::find_if(known.begin(), known.end(),
                                  [&](const Option& option) { return name.equal(py::str(option.name)); });
    if (own == known.end()) fail_key(group, py::str(name));
    own->set(settings, entry.second, operation.c_str(), own->name);
  }
  group.set_settings(settings);
}

py::dict with_parameters(const ParameterGroup& group) {
  py::dict all;
  all["params"] = option(group, "params");
  for (const auto& [name, value] : options_of(group)) all[name] = value;
  return all;
}

// What an iterable gives, which may give it once.
py::list items_of(py::handle params, const std::string& operation) {
  if (is_tensor(params)) fail_type(operation, ": params must be an iterable of Tensors; got a Tensor");
  if (!py::hasattr(params, "__iter__") || py::isinstance<py::dict>(params) || py::isinstance<py::str>(params))
    fail_type(operation, ": params must be an iterable of Tensors; got ", type_name(params),
              py::isinstance<nn::Module>(params) ? "; write layer.parameters()" : "");
  if (PyAnySet_Check(params.ptr()))
    fail_type(operation, ": params must have an order because states are saved by number; got ", type_name(params));
  return py::list(py::reinterpret_borrow<py::object>(params));
}

// `names` get those of the pairs (name, Tensor); none unless all are such.
Tensors tensors_from(const py::list& items, const std::string& operation, std::vector<std::string>& names) {
  Tensors tensors;
  for (const py::handle item : items) {
    py::object p = py::reinterpret_borrow<py::object>(item);
    if (py::isinstance<py::tuple>(p) && py::len(p) == 2 && py::isinstance<py::str>(p[py::int_(0)])) {
      names.push_back(py::str(p[py::int_(0)]));
      p = p[py::int_(1)];
    }
    if (!is_tensor(p))
      fail_type(operation, ": params must be Tensors; got params[", tensors.size(), "] of type ", type_name(p));
    tensors.push_back(p.cast<Tensor>());
  }
  if (names.size() != tensors.size()) names.clear();
  return tensors;
}

}  // namespace

Tensors parameters_from(py::handle params, const std::string& operation) {
  std::vector<std::string> names;
  return tensors_from(items_of(params, operation), operation, names);
}

void set_lr(Optimizer& optimizer, py::handle value) {
  optimizer.set_lr(one_number(value, optimizer.name().c_str(), "lr"));
}

void add_group(Optimizer& optimizer, const py::dict& group, const std::string& operation) {
  if (const py::object problem = misfit(optimizer, group, operation); !problem.is_none())
    fail_type(std::string(py::str(problem)));
  OptimizerSettings settings = optimizer.defaults();
  for (const Option& option : options(optimizer))
    if (group.contains(option.name)) option.set(settings, group[option.name], operation.c_str(), option.name);
  const py::object params = group["params"];
  std::vector<std::string> names;
  Tensors parameters =
      is_tensor(params) ? Tensors{params.cast<Tensor>()} : tensors_from(items_of(params, operation), operation, names);
  if (parameters.empty())
    fail_value(operation, ": params must hold at least one Tensor; got none (what a generator gives, it gives once)");
  const Alone alone;  // a step on another thread reads the groups
  optimizer.add_group(std::move(parameters), settings, std::move(names));
}

void add_groups(Optimizer& optimizer, py::handle params) {
  const std::string& name = optimizer.name();
  optimizer.check(optimizer.defaults());
  if (py::isinstance<py::dict>(params) && params.contains("params"))
    fail_type(name, ": params must be a list of groups; got one group; write [group]");
  const py::list items = items_of(params, name);
  if (items.empty() || !py::isinstance<py::dict>(items[0])) {
    std::vector<std::string> names;
    Tensors parameters = tensors_from(items, name, names);
    return optimizer.add_group(std::move(parameters), optimizer.defaults(), std::move(names));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const py::object group = items[i];
    if (!py::isinstance<py::dict>(group))
      fail_type(name, ": params must be groups if the first is one; got params[", i, "] of type ", type_name(group));
    add_group(optimizer, group, text(name, ", group ", i));
  }
}

py::dict options_of(const ParameterGroup& group) {
  const OptimizerSettings settings = group.settings();
  py::dict found;
  for (const Option& option : options(group.optimizer())) found[option.name] = option.get(settings);
  return found;
}

std::string options_shown(const ParameterGroup& group) {
  const std::size_t count = group.parameters().size();
  std::string result = text(count, count == 1 ? " parameter" : " parameters");
  for (const auto& [name, value] : options_of(group))
    result += text(", ", std::string(py::str(name)), "=", std::string(py::repr(value)));
  return result;
}

OptimizerSettings saved_settings(const Optimizer& optimizer, const py::dict& group) {
  const std::string operation = optimizer.name() + ".load_state_dict";
  OptimizerSettings settings;
  for (const Option& option : options(optimizer)) {
    if (!group.contains(option.name))
      fail_value(operation, ": a group must hold ", option.name, "; got keys ", std::string(py::str(py::list(group))));
    option.set(settings, group[option.name], operation.c_str(), option.name);
  }
  optimizer.check(settings);
  // PyTorch's, which would change the steps.
  const auto* adam = dynamic_cast<const nn::Adam*>(&optimizer);
  for (const char* name : {"amsgrad", "maximize", "dampening", "decoupled_weight_decay"}) {
    const bool wanted = std::string_view(name) == "decoupled_weight_decay" && adam != nullptr && adam->decoupled();
    if (group.contains(name) && py::bool_(py::object(group[name])) != wanted)
      fail_value(operation, ": ", name, " must be ", wanted ? "True" : "False", " because ", optimizer.name(),
                 " knows no other; got ", described(group[name]));
  }
  return settings;
}

void bind_parameter_group(py::module_& m) {
  Class<ParameterGroup, std::shared_ptr<ParameterGroup>>(m, "ParameterGroup", R"doc(
Parameters of an optimizer that are stepped by the same options, read and assigned by name as in a dict.

``group["params"]`` is the tuple of its Tensors; every other key is an option of the optimizer, such as ``"lr"`` or
``"weight_decay"``, and what is assigned holds for the next step. Groups stand in ``optimizer.param_groups``.

Raises
------
TypeError
    If a key is no option of the optimizer, or a value has the wrong type.
ValueError
    If a number is out of its range; the old one stays.

Examples
--------
>>> w, b = qkv.nn.Parameter([1.0]), qkv.nn.Parameter([2.0])
>>> optimizer = qkv.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.1}], lr=1.0)
>>> for group in optimizer.param_groups:
...     group["lr"] *= 0.5
>>> [group["lr"] for group in optimizer.param_groups]
[0.5, 0.05]
)doc")
      .def("__getitem__", &option, py::arg("name"))
      .def(
          "__setitem__",
          [](ParameterGroup& g, const py::str& name, const py::object& value) {
            py::dict one;
            one[name] = value;
            set_options(g, one);
          },
          py::arg("name"), py::arg("value"))
      .def(
          "update",
          [](ParameterGroup& g, const py::dict& options, const py::kwargs& more) {
            py::dict all(options.attr("copy")());
            for (const auto& [name, value] : more) all[name] = value;
            set_options(g, all);
          },
          py::arg("options") = py::dict(), "Assign several options at once, or none if one is refused.")
      .def("__contains__", [](const ParameterGroup& g, py::handle name) { return with_parameters(g).contains(name); })
      .def("__iter__", [](const ParameterGroup& g) { return py::object(with_parameters(g).attr("__iter__")()); })
      .def("__len__", [](const ParameterGroup& g) { return 1 + options(g.optimizer()).size(); })
      .def(
          "keys", [](const ParameterGroup& g) { return py::list(with_parameters(g)); }, "\"params\" and the options.")
      .def(
          "values", [](const ParameterGroup& g) { return py::list(with_parameters(g).attr("values")()); },
          "What the keys stand for, in their order.")
      .def(
          "items", [](const ParameterGroup& g) { return py::list(with_parameters(g).attr("items")()); },
          "Pairs of key and value.")
      .def(
          "get",
          [](const ParameterGroup& g, py::handle name, py::object otherwise) -> py::object {
            const py::dict all = with_parameters(g);
            return all.contains(name) ? py::object(all[name]) : otherwise;
          },
          py::arg("name"), py::arg("default") = py::none(), "The value of a key, or `default` if there is no such key.")
      .def("__repr__", [](const ParameterGroup& g) { return "ParameterGroup(" + options_shown(g) + ")"; });
}

}  // namespace qkv::bindings
