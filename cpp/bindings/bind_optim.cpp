// Optimizers and gradient clipping.
#include <memory>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "bindings/interpreter.h"
#include "nn/optim.h"

namespace qkv::bindings {
namespace {

using nn::Adam;
using nn::Optimizer;
using nn::ParameterState;
using nn::SGD;

struct AdamW : Adam {
  using Adam::Adam;
};

Tensors parameters_from(py::handle params, const char* operation) {
  if (is_tensor(params)) fail_type(operation, ": params must be an iterable of Tensors; got a Tensor");
  if (!py::hasattr(params, "__iter__") || py::isinstance<py::dict>(params) || py::isinstance<py::str>(params))
    fail_type(operation, ": params must be an iterable of Tensors; got ",
              std::string(py::str(py::type::handle_of(params).attr("__name__"))),
              py::isinstance<nn::Module>(params) ? "; write layer.parameters()" : "");
  Tensors tensors;
  for (const py::handle p : py::reinterpret_borrow<py::iterable>(params)) {
    if (!is_tensor(p))
      fail_type(
          operation, ": params must be Tensors; got params[", tensors.size(), "] of type ",
          std::string(py::str(py::type::handle_of(p).attr("__name__"))),
          py::isinstance<py::dict>(p) ? "; a group with settings of its own is an optimizer of its own here" : "");
    tensors.push_back(p.cast<Tensor>());
  }
  return tensors;
}

// The names under which PyTorch keeps what an optimizer remembers.
bool is_sgd(const Optimizer& optimizer) { return dynamic_cast<const SGD*>(&optimizer) != nullptr; }
const char* first_name(const Optimizer& optimizer) { return is_sgd(optimizer) ? "momentum_buffer" : "exp_avg"; }

py::dict settings(const Optimizer& optimizer) {
  py::dict group;
  group["lr"] = optimizer.lr();
  group["weight_decay"] = optimizer.weight_decay();
  if (const auto* sgd = dynamic_cast<const SGD*>(&optimizer)) {
    group["momentum"] = sgd->momentum();
    group["nesterov"] = sgd->nesterov();
  } else if (const auto* adam = dynamic_cast<const Adam*>(&optimizer)) {
    group["betas"] = py::make_tuple(adam->beta1(), adam->beta2());
    group["eps"] = adam->eps();
  }
  return group;
}

std::string shown(const Optimizer& optimizer) {
  std::string result = text(optimizer.name(), "(", optimizer.parameters().size(), " parameters");
  for (const auto& [name, value] : settings(optimizer))
    result += text(", ", std::string(py::str(name)), "=", std::string(py::repr(value)));
  return result + ")";
}

py::dict state_dict(Optimizer& optimizer) {
  py::dict state, group = settings(optimizer);
  py::list numbers;
  const std::vector<ParameterState> states = without_gil([&] { return optimizer.states(); });
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ParameterState& s = states[i];
    numbers.append(i);
    if (s.steps == 0) continue;
    py::dict entry;
    entry["step"] = s.steps;
    if (s.first.defined()) entry[first_name(optimizer)] = to_numpy(s.first, true);
    if (s.second.defined()) entry["exp_avg_sq"] = to_numpy(s.second, true);
    state[py::int_(i)] = entry;
  }
  group["params"] = numbers;
  py::dict result;
  result["state"] = state;
  py::list groups;
  groups.append(group);
  result["param_groups"] = groups;
  return result;
}

Array array_entry(const Optimizer& optimizer, const py::dict& entry, const char* key, std::size_t i) {
  if (!entry.contains(key) || entry[key].is_none()) return {};
  const Tensor& p = optimizer.parameters()[i];
  Array array = copy_of(entry[key], numpy_dtype(p.dtype()), "load_state_dict");
  if (array.shape() != p.shape())
    fail_value("load_state_dict: ", key, " of params[", i, "] must be ", p.shape(), " because the parameter is; got ",
               array.shape());
  return array;
}

void load_optimizer_state(Optimizer& optimizer, const py::dict& saved) {
  if (!saved.contains("state") || !saved.contains("param_groups") || py::len(saved["param_groups"]) != 1)
    fail_value(optimizer.name(),
               ".load_state_dict: state_dict must hold 'state' and one entry of 'param_groups'; got keys ",
               std::string(py::str(py::list(saved))));
  const auto group = saved["param_groups"][py::int_(0)].cast<py::dict>();
  const auto numbers = group["params"].cast<py::list>();
  if (numbers.size() != optimizer.parameters().size())
    fail_value(optimizer.name(), ".load_state_dict: state_dict must be of ", optimizer.parameters().size(),
               " parameters because the optimizer has as many; got ", numbers.size());
  const auto entries = saved["state"].cast<py::dict>();
  std::vector<ParameterState> states(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!entries.contains(numbers[i])) continue;
    const auto entry = entries[numbers[i]].cast<py::dict>();
    // PyTorch's SGD keeps no count and its Adam a Tensor.
    states[i].steps = entry.contains("step") ? static_cast<Index>(py::float_(entry["step"]).cast<double>()) : 1;
    states[i].first = array_entry(optimizer, entry, first_name(optimizer), i);
    if (!is_sgd(optimizer)) states[i].second = array_entry(optimizer, entry, "exp_avg_sq", i);
    if (!is_sgd(optimizer) && (!states[i].first.defined() || !states[i].second.defined()))
      fail_value(optimizer.name(), ".load_state_dict: state of params[", i,
                 "] must hold 'exp_avg' and 'exp_avg_sq'; got keys ", std::string(py::str(py::list(entry))));
  }
  const Alone alone;  // a step on another thread reads the settings
  optimizer.set_lr(group["lr"].cast<double>());
  optimizer.set_weight_decay(group["weight_decay"].cast<double>());
  if (auto* sgd = dynamic_cast<SGD*>(&optimizer)) {
    sgd->set_momentum(group["momentum"].cast<double>(), group["nesterov"].cast<bool>());
  } else if (auto* adam = dynamic_cast<Adam*>(&optimizer)) {
    const auto betas = group["betas"].cast<std::pair<double, double>>();
    adam->set_averages(betas.first, betas.second, group["eps"].cast<double>());
  }
  without_gil([&] { optimizer.set_states(std::move(states)); });
}

template <class T>
std::unique_ptr<T> make_adam(py::handle params, double lr, std::pair<double, double> betas, double eps,
                             double weight_decay) {
  constexpr bool decoupled = std::is_same_v<T, AdamW>;
  return std::make_unique<T>(parameters_from(params, decoupled ? "AdamW" : "Adam"), lr, betas.first, betas.second, eps,
                             weight_decay, decoupled);
}

// The parameters and where the optimizer stands. Pickled or copied together with their module, the parameters are the
// copied module's, because pickle and copy keep what is shared.
template <class T, class Make> auto pickled(Make make) {
  return py::pickle([](T& optimizer) { return py::make_tuple(optimizer.parameters(), state_dict(optimizer)); },
                    [make](const py::tuple& state) {
                      auto optimizer = make(py::object(state[0]));
                      load_optimizer_state(*optimizer, state[1].cast<py::dict>());
                      return optimizer;
                    });
}

}  // namespace

void bind_optim(py::module_& m) {
  py::class_<Optimizer>(m, "Optimizer", "What SGD, Adam and AdamW have in common.")
      .def("step", &Optimizer::step, py::call_guard<GilReleased>(),
           "Update every parameter that has a gradient, in place; raises the parameters' versions.")
      .def("zero_grad", &Optimizer::zero_grad, "Forget the gradients: ``grad`` becomes None.")
      .def_property("lr", &Optimizer::lr, &Optimizer::set_lr, "Learning rate of the next step; 0 is allowed.")
      .def_property_readonly(
          "params", [](const Optimizer& o) { return o.parameters(); }, "The parameters.")
      .def("state_dict", state_dict,
           "Everything that decides the next steps beside the parameters, in PyTorch's layout: ``state`` holds NumPy "
           "arrays for each "
           "parameter, ``param_groups`` one dict of settings. Loading it continues to the bit.")
      .def("load_state_dict", load_optimizer_state, py::arg("state_dict"),
           "Continue where the optimizer stood that gave `state_dict`; its settings, ``lr`` among them, are taken "
           "over. PyTorch's "
           "dicts with one parameter group are legal too.")
      .def("__repr__", &shown);

  py::class_<SGD, Optimizer>(m, "SGD", R"doc(
Gradient descent: ``v = momentum v + g``, ``w -= lr v``, with ``g = grad + weight_decay w``.

Parameters
----------
params : iterable of Tensor
    Usually ``module.parameters()``. Those without a gradient are skipped by a step.
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
    If params holds anything but floating Tensors.

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
             return std::make_unique<SGD>(parameters_from(params, "SGD"), lr, momentum, weight_decay, nesterov);
           }),
           py::arg("params"), py::arg("lr"), py::arg("momentum") = 0.0, py::arg("weight_decay") = 0.0,
           py::arg("nesterov") = false)
      .def(pickled<SGD>(
          [](py::handle params) { return std::make_unique<SGD>(parameters_from(params, "SGD"), 0, 0, 0, false); }));

  py::class_<Adam, Optimizer>(m, "Adam", R"doc(
Adam: ``w -= lr m^ / (sqrt(v^) + eps)`` with the bias-corrected running averages of the gradient and of its square.

Parameters
----------
params : iterable of Tensor
    Usually ``module.parameters()``. Those without a gradient are skipped by a step.
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
    If params holds anything but floating Tensors.

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
      .def(pickled<Adam>([](py::handle params) { return make_adam<Adam>(params, 0, {0.9, 0.999}, 1e-8, 0); }));

  py::class_<AdamW, Adam>(m, "AdamW", R"doc(
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

References
----------
Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
)doc")
      .def(py::init(&make_adam<AdamW>), py::arg("params"), py::arg("lr") = 1e-3,
           py::arg("betas") = std::make_pair(0.9, 0.999), py::arg("eps") = 1e-8, py::arg("weight_decay") = 0.01)
      .def(pickled<AdamW>([](py::handle params) { return make_adam<AdamW>(params, 0, {0.9, 0.999}, 1e-8, 0); }));

  m.def("clip_grad_norm", [](py::handle params, double max_norm) {
    const Tensors tensors =
        is_tensor(params) ? Tensors{params.cast<Tensor>()} : parameters_from(params, "clip_grad_norm");
    return without_gil([&] { return nn::clip_grad_norm(tensors, max_norm); });
  });
}

}  // namespace qkv::bindings
