// Optimizers and gradient clipping.
#include <memory>

#include "bindings/bindings.h"

#include <algorithm>
#include "bindings/class.h"
#include "bindings/convert.h"
#include "bindings/interpreter.h"
#include "bindings/parameter_groups.h"
#include "nn/optim.h"

namespace qkv::bindings {
namespace {

using nn::Adam;
using nn::Optimizer;
using nn::OptimizerSettings;
using nn::ParameterGroup;
using nn::ParameterState;
using nn::SGD;

struct AdamW : Adam {
  explicit AdamW(const OptimizerSettings& defaults) : Adam(defaults, true) {}
};

// The names under which PyTorch keeps what an optimizer remembers.
bool is_sgd(const Optimizer& optimizer) { return dynamic_cast<const SGD*>(&optimizer) != nullptr; }
const char* first_name(const Optimizer& optimizer) { return is_sgd(optimizer) ? "momentum_buffer" : "exp_avg"; }

std::string shown(const Optimizer& optimizer) {
  const auto& groups = optimizer.groups();
  if (groups.size() == 1) return text(optimizer.name(), "(", options_shown(groups[0]), ")");
  std::string result = optimizer.name() + "(";
  for (std::size_t i = 0; i < groups.size(); ++i) result += text("\n  group ", i, ": ", options_shown(groups[i]));
  return result + "\n)";
}

py::tuple param_groups(const std::shared_ptr<Optimizer>& optimizer) {
  py::tuple groups(optimizer->groups().size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    groups[i] = py::cast(std::shared_ptr<ParameterGroup>(optimizer, &optimizer->groups()[i]));
  return groups;
}

py::dict state_dict(Optimizer& optimizer) {
  py::dict state;
  const std::vector<ParameterState> states = without_gil([&] { return optimizer.states(); });
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ParameterState& s = states[i];
    if (s.steps == 0) continue;
    py::dict entry;
    entry["step"] = s.steps;
    if (s.first.defined()) entry[first_name(optimizer)] = to_numpy(s.first, true);
    if (s.second.defined()) entry["exp_avg_sq"] = to_numpy(s.second, true);
    state[py::int_(i)] = entry;
  }
  py::list groups;
  std::size_t next = 0;
  for (const ParameterGroup& group : optimizer.groups()) {
    py::dict options = options_of(group);
    py::list numbers;
    for (std::size_t i = 0; i < group.parameters().size(); ++i) numbers.append(next++);
    options["params"] = numbers;
    if (!group.names().empty()) options["param_names"] = py::cast(group.names());
    groups.append(options);
  }
  py::dict result;
  result["state"] = state;
  result["param_groups"] = groups;
  return result;
}

Array array_entry(const Optimizer& optimizer, const py::dict& entry, const char* key, const Tensor& p, std::size_t i) {
  if (!entry.contains(key) || entry[key].is_none()) return {};
  Array array = copy_of(entry[key], numpy_dtype(p.dtype()), "load_state_dict");
  if (array.shape() != p.shape())
    fail_value(optimizer.name(), ".load_state_dict: ", key, " of params[", i, "] must be ", p.shape(),
               " because the parameter is; got ", array.shape());
  return array;
}

ParameterState saved_state(const Optimizer& optimizer, const py::dict& entry, const Tensor& p, std::size_t i) {
  const std::string operation = optimizer.name() + ".load_state_dict";
  ParameterState state;
  // PyTorch's SGD keeps no count and its Adam a Tensor.
  state.steps = 1;
  if (entry.contains("step")) {
    const py::object step = entry["step"];
    const double steps = PyNumber_Check(step.ptr()) != 0 ? py::float_(step).cast<double>() : -1;
    if (!(steps >= 0 && steps < 0x1p62))
      fail_value(operation, ": step of params[", i, "] must be a number of steps; got ", described(step));
    state.steps = static_cast<Index>(steps);
  }
  state.first = array_entry(optimizer, entry, first_name(optimizer), p, i);
  if (is_sgd(optimizer)) return state;
  state.second = array_entry(optimizer, entry, "exp_avg_sq", p, i);
  if (!state.first.defined() || !state.second.defined())
    fail_value(operation, ": state of params[", i, "] must hold 'exp_avg' and 'exp_avg_sq'; got keys ",
               std::string(py::str(py::list(entry))));
  return state;
}

// A part of a state_dict, which must be a dict or a list.
template <class T>
T saved_part(const Optimizer& optimizer, const py::dict& whole, const py::object& key, const std::string& what) {
  const std::string operation = optimizer.name() + ".load_state_dict";
  if (!whole.contains(key))
    fail_value(operation, ": ", what, " must be there; got keys ", std::string(py::str(py::list(whole))));
  const py::object part = whole[key];
  if (!py::isinstance<T>(part))
    fail_type(operation, ": ", what, " must be a ", std::is_same_v<T, py::dict> ? "dict" : "list", "; got ",
              described(part));
  return py::reinterpret_borrow<T>(part);
}

// The numbers of a saved group's parameters, by name where both sides know the names, as the order may have changed.
py::list in_order_of(const ParameterGroup& group, const py::dict& saved, const py::list& numbers) {
  if (group.names().empty() || !saved.contains("param_names")) return numbers;
  const auto names = saved["param_names"].cast<std::vector<std::string>>();
  if (names.size() != numbers.size() ||
      !std::is_permutation(names.begin(), names.end(), group.names().begin(), group.names().end()))
    return numbers;
  py::list ordered;
  for (const std::string& name : group.names())
    ordered.append(numbers[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())]);
  return ordered;
}

void load_optimizer_state(Optimizer& optimizer, const py::dict& saved) {
  const std::string operation = optimizer.name() + ".load_state_dict";
  if (!saved.contains("state") || !saved.contains("param_groups"))
    fail_value(operation, ": state_dict must hold 'state' and 'param_groups'; got keys ",
               std::string(py::str(py::list(saved))));
  const auto entries = saved_part<py::dict>(optimizer, saved, py::str("state"), "state");
  const auto groups = saved_part<py::list>(optimizer, saved, py::str("param_groups"), "param_groups");
  const std::size_t count = optimizer.groups().size();
  if (groups.size() != count)
    fail_value(operation, ": state_dict must be of ", count, " groups because the optimizer has as many; got ",
               groups.size());
  std::vector<OptimizerSettings> settings;
  std::vector<ParameterState> states;
  std::size_t used = 0;
  for (std::size_t g = 0; g < count; ++g) {
    const py::object given = groups[g];
    if (!py::isinstance<py::dict>(given)) fail_type(operation, ": a group must be a dict; got ", described(given));
    const auto group = py::reinterpret_borrow<py::dict>(given);
    settings.push_back(saved_settings(optimizer, group));
    const auto numbers = in_order_of(optimizer.groups()[g], group,
                                     saved_part<py::list>(optimizer, group, py::str("params"), "params of a group"));
    const Tensors& parameters = optimizer.groups()[g].parameters();
    if (numbers.size() != parameters.size())
      fail_value(operation, ": state_dict must be of ", parameters.size(), " parameters because ",
                 count == 1 ? std::string("the optimizer") : text("group ", g), " has as many; got ", numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const py::object number = numbers[i];
      const std::size_t place = states.size();
      states.emplace_back();
      if (!entries.contains(number)) continue;
      ++used;
      const auto entry = saved_part<py::dict>(optimizer, entries, number, text("state of params[", place, "]"));
      states.back() = saved_state(optimizer, entry, parameters[i], place);
    }
  }
  if (used != entries.size())
    fail_value(operation,
               ": state must have the numbers in the groups' params as keys because each belongs to a "
               "parameter; got ",
               used, " of ", entries.size(), " keys that are such numbers");
  const Alone alone;  // a step on another thread reads what changes here
  if (optimizer.groups().size() != count) fail_value(operation, ": a group was added by another thread");
  for (std::size_t g = 0; g < count; ++g) optimizer.groups()[g].set_settings(settings[g]);
  optimizer.set_states(std::move(states));  // with Python's lock: without it another change could come in between
}

template <class T> std::shared_ptr<T> make(const OptimizerSettings& defaults, py::handle params) {
  auto optimizer = std::make_shared<T>(defaults);
  add_groups(*optimizer, params);
  return optimizer;
}

template <class T>
std::shared_ptr<T> make_adam(py::handle params, double lr, std::pair<double, double> betas, double eps,
                             double weight_decay) {
  return make<T>({.lr = lr, .weight_decay = weight_decay, .beta1 = betas.first, .beta2 = betas.second, .eps = eps},
                 params);
}

py::object named_parameters(const ParameterGroup& group) {
  if (group.names().empty()) return py::cast(group.parameters());
  py::list pairs;
  for (std::size_t i = 0; i < group.names().size(); ++i)
    pairs.append(py::make_tuple(group.names()[i], group.parameters()[i]));
  return std::move(pairs);
}

// The parameters of each group, where the optimizer stands, and the options of groups that are added later. Pickled or
// copied together with their module, the parameters are the copied module's, because pickle and copy keep what is
// shared.
template <class T> auto pickled() {
  return py::pickle(
      [](T& optimizer) {
        py::list groups;
        for (const ParameterGroup& group : optimizer.groups())
          groups.append(py::dict(py::arg("params") = named_parameters(group)));
        const OptimizerSettings& d = optimizer.defaults();
        return py::make_tuple(groups, state_dict(optimizer),
                              py::make_tuple(d.lr, d.weight_decay, d.momentum, d.nesterov, d.beta1, d.beta2, d.eps));
      },
      [](const py::tuple& state) {
        const auto [lr, weight_decay, momentum, nesterov, beta1, beta2, eps] =
            state[2].cast<std::tuple<double, double, double, bool, double, double, double>>();
        auto optimizer = make<T>({lr, weight_decay, momentum, nesterov, beta1, beta2, eps}, py::object(state[0]));
        load_optimizer_state(*optimizer, state[1].cast<py::dict>());
        return optimizer;
      });
}

}  // namespace

void bind_optim(py::module_& m) {
  bind_parameter_group(m);
  Class<Optimizer, std::shared_ptr<Optimizer>>(m, "Optimizer", "What SGD, Adam and AdamW have in common.")
      .def("step", &Optimizer::step, py::call_guard<GilReleased>(),
           "Update every parameter that has a gradient, in place; raises the parameters' versions.")
      .def("zero_grad", &Optimizer::zero_grad, "Forget the gradients: ``grad`` becomes None.")
      .def_property(
          "lr", &Optimizer::lr, &set_lr,
          "Learning rate of the next step; 0 is allowed. With several groups it is the rate of all of them, and "
          "a ValueError while they have different ones.")
      .def_property_readonly(
          "params", [](const Optimizer& o) { return o.parameters(); }, "The parameters of all groups.")
      .def_property_readonly("param_groups", &param_groups,
                             "Tuple of the groups of parameters; their options are read and assigned by name.")
      .def(
          "add_param_group",
          [](Optimizer& o, const py::dict& group) { add_group(o, group, o.name() + ".add_param_group"); },
          py::arg("param_group"),
          "Step more parameters: a dict of ``params`` and the options in which they differ from those that the "
          "optimizer was made with.")
      .def("state_dict", state_dict,
           "Everything that decides the next steps beside the parameters, in PyTorch's layout: ``state`` holds NumPy "
           "arrays for each "
           "parameter, ``param_groups`` a dict of options for each group. Loading it continues to the bit.")
      .def("load_state_dict", load_optimizer_state, py::arg("state_dict"),
           "Continue where the optimizer stood that gave `state_dict`; its settings, ``lr`` among them, are taken "
           "over. PyTorch's "
           "dicts are legal too.")
      .def("__repr__", &shown);

  Class<SGD, Optimizer, std::shared_ptr<SGD>>(m, "SGD", R"doc(
Gradient descent: ``v = momentum v + g``, ``w -= lr v``, with ``g = grad + weight_decay w``.

Parameters
----------
params : iterable of Tensor, of (name, Tensor) or of dict
    Usually ``module.parameters()``. Those without a gradient are skipped by a step. A dict is a group with options of
    its own: its Tensors as ``"params"``, and those options in which it differs from the ones below.
lr : float
    Learning rate, at least 0; assignable afterwards.
momentum : float
    Share of the last step that is kept; the first step is the gradient itself, as in PyTorch.
weight_decay : float
    Added to the gradient as ``weight_decay w``.
nesterov : bool
    ``w -= lr (g + momentum v)`` instead.

Raises
------
ValueError
    If a number is out of its range, no parameter is given or one is given twice.
TypeError
    If params holds anything but floating Tensors, or a group an option that there is not.

Examples
--------
>>> w = qkv.tensor([1.0, 2.0], requires_grad=True)
>>> optimizer = qkv.optim.SGD([w], lr=0.5)
>>> (w * w).sum().backward(); optimizer.step()
>>> w.tolist()
[0.0, 0.0]

References
----------
Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013.
)doc")
      .def(py::init([](py::handle params, double lr, double momentum, double weight_decay, bool nesterov) {
             return make<SGD>({.lr = lr, .weight_decay = weight_decay, .momentum = momentum, .nesterov = nesterov},
                              params);
           }),
           py::arg("params"), py::arg("lr"), py::arg("momentum") = 0.0, py::arg("weight_decay") = 0.0,
           py::arg("nesterov") = false)
      .def(pickled<SGD>());

  Class<Adam, Optimizer, std::shared_ptr<Adam>>(m, "Adam", R"doc(
Adam: ``w -= lr m^ / (sqrt(v^) + eps)`` with the bias-corrected running averages of the gradient and of its square.

Parameters
----------
params : iterable of Tensor, of (name, Tensor) or of dict
    Usually ``module.parameters()``. Those without a gradient are skipped by a step. A dict is a group with options of
    its own: its Tensors as ``"params"``, and those options in which it differs from the ones below.
lr : float
    Learning rate, at least 0; assignable afterwards.
betas : (float, float)
    How much of the two averages a step keeps.
eps : float
    Added to the root.
weight_decay : float
    Added to the gradient as ``weight_decay w``; `AdamW` decouples it.

Raises
------
ValueError
    If a number is out of its range, no parameter is given or one is given twice.
TypeError
    If params holds anything but floating Tensors, or a group an option that there is not.

Examples
--------
>>> w = qkv.tensor([1.0, 2.0], requires_grad=True)
>>> optimizer = qkv.optim.Adam([w], lr=0.5)
>>> (w * w).sum().backward(); optimizer.step()
>>> w.tolist()
[0.5, 1.5]

References
----------
Kingma, Ba, "Adam: a method for stochastic optimization", 2015.
)doc")
      .def(py::init(&make_adam<Adam>), py::arg("params"), py::arg("lr") = 1e-3,
           py::arg("betas") = std::make_pair(0.9, 0.999), py::arg("eps") = 1e-8, py::arg("weight_decay") = 0.0)
      .def(pickled<Adam>());

  Class<AdamW, Adam, std::shared_ptr<AdamW>>(m, "AdamW", R"doc(
Adam with decoupled weight decay: ``w -= lr weight_decay w`` first, then Adam's step without decay.

Parameters
----------
params, lr, betas, eps
    As in `Adam`.
weight_decay : float
    Shrinks the parameters by ``lr weight_decay`` each step, whatever their gradients are.

Raises
------
ValueError, TypeError
    As in `Adam`.

Examples
--------
>>> w = qkv.tensor([1.0], requires_grad=True)
>>> optimizer = qkv.optim.AdamW([w], lr=0.5, weight_decay=0.2)
>>> (0.0 * w).sum().backward(); optimizer.step()
>>> round(w.item(), 4)
0.9

Matrices decay, biases and norms do not:

>>> layer = qkv.nn.TransformerEncoderLayer(8, 2, 16)
>>> matrices = [p for p in layer.parameters() if p.ndim > 1]
>>> rest = [p for p in layer.parameters() if p.ndim == 1]
>>> groups = [{"params": matrices}, {"params": rest, "weight_decay": 0.0}]
>>> optimizer = qkv.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)

References
----------
Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
)doc")
      .def(py::init(&make_adam<AdamW>), py::arg("params"), py::arg("lr") = 1e-3,
           py::arg("betas") = std::make_pair(0.9, 0.999), py::arg("eps") = 1e-8, py::arg("weight_decay") = 0.01)
      .def(pickled<AdamW>());

  m.def(
      "clip_grad_norm",
      [](py::handle params, double max_norm) {
        const Tensors tensors =
            is_tensor(params) ? Tensors{params.cast<Tensor>()} : parameters_from(params, "clip_grad_norm");
        return without_gil([&] { return nn::clip_grad_norm(tensors, max_norm); });
      },
      py::arg("params"), py::arg("max_norm"));
}

}  // namespace qkv::bindings
