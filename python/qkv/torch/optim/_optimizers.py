"""Optimizers: the core's, with PyTorch's groups, states and text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core
from ..._words.errors import shown
from .._grad_mode import enable_grad, no_grad
from .._settings import constructor, undefined
from .._tensor import Core, Tensor, wrap, wrap_array
from ..nn.parameter import forget_gradients


class Optimizer:
    """Base of the optimizers; a subclass defines ``step`` with ``self.param_groups`` and ``self.state``.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> class Plain(torch.optim.Optimizer):
    ...     def step(self):
    ...         with torch.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p -= group["lr"] * p.grad
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Plain([w], {"lr": 0.5})
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Core):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts; got a Tensor"
            )
        self.defaults = defaults
        self.state: Any = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own."""
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f"param_group must be a dict with the key 'params'; got {shown(param_group)}")
        given = param_group["params"]
        members = [given] if isinstance(given, Core) else list(given)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for p in members:
            if not isinstance(p, Core):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {shown(p)}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError("some parameters appear in more than one parameter group")
        param_group["params"] = members
        for name, default in self.defaults.items():
            param_group.setdefault(name, default)
        self._check(param_group)
        self.param_groups.append(param_group)

    def _check(self, group: dict[str, Any]) -> None:
        """Refuse settings of a group that are not followed."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        forget_gradients(self._numbered().values(), set_to_none)

    step = undefined("step")

    def _loss(self, closure: Callable[[], Any] | None):
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _numbered(self) -> dict[int, Any]:
        return dict(enumerate(p for group in self.param_groups for p in group["params"]))

    def state_dict(self) -> dict[str, Any]:
        """What decides the next steps, in PyTorch's layout: parameters are named by numbers."""
        numbers = {id(p): i for i, p in self._numbered().items()}
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        for group, own in zip(groups, self.param_groups, strict=True):
            group["params"] = [numbers[id(p)] for p in own["params"]]  # the last, as there
        state = {i: dict(self.state[p]) for i, p in self._numbered().items() if self.state.get(p)}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the state of the optimizer that returned `state_dict`."""
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= state_dict.keys():
            raise ValueError(
                "load_state_dict: state_dict must be what state_dict() gave, with state and param_groups"
            )
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for group, entry in zip(self.param_groups, saved, strict=True):
            if len(group["params"]) != len(entry["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            self._check({**group, **entry})
            group.update({k: v for k, v in entry.items() if k != "params"})
        self.state.clear()
        for i, p in self._numbered().items():
            if i in state_dict["state"]:
                entry = state_dict["state"][i].items()
                self.state[p] = {k: v.clone() if isinstance(v, Tensor) else v for k, v in entry}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"


# Settings of PyTorch's that must keep these values; "foreach" and "fused" choose how it computes, not what.
_REFUSED = {"maximize", "capturable", "differentiable", "dampening", "amsgrad"}
_AT_LEAST_0 = ("lr", "eps", "weight_decay", "momentum")


class _Rule(Optimizer):
    """An optimizer of PyTorch's: a constructor, and steps that the core takes."""

    _names: tuple[str, ...]  # of the arrays that it remembers for each parameter

    def _configure(self, params, **defaults) -> None:
        super().__init__(params, defaults)

    def __setattr__(self, name: str, value) -> None:
        if name in (*vars(self).get("defaults", ()), "learning_rate"):
            key = "lr" if name == "learning_rate" else name
            raise AttributeError(
                f"{type(self).__name__}: {name} must be assigned in groups because steps read it there; got an "
                f'assignment to the optimizer; write group["{key}"] for group in optimizer.param_groups'
            )
        super().__setattr__(name, value)

    def _check(self, group: dict[str, Any]) -> None:
        name = type(self).__name__
        for setting in sorted(_REFUSED & group.keys()):
            if group[setting]:
                raise ValueError(
                    f"{name}: {setting} must be {type(group[setting])()}; qkv.torch knows no other"
                )
        if group["foreach"] and group.get("fused"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        for setting in _AT_LEAST_0:
            if not float(group.get(setting, 0)) >= 0:
                raise ValueError(f"{name}: Invalid {setting} value: {group[setting]}; it must be at least 0")
        if not all(0 <= beta < 1 for beta in group.get("betas", ())):
            raise ValueError(f"{name}: Invalid betas: {group['betas']}; they must be at least 0 and below 1")

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None):
        """Update every parameter that has a gradient, in place."""
        loss = self._loss(closure)
        for group in self.param_groups:
            members = [p for p in group["params"] if p.grad is not None]
            for p in members:
                if not self.state[p] and not isinstance(self, SGD):
                    self.state[p]["step"] = wrap_array(np.float32(0))
            self._step_group(members, group)
        return loss

    def _step_group(self, members: list[Any], group: dict[str, Any]) -> None:
        steps, states = _core.StepGroup(members), [self.state[p] for p in members]
        absent = [None] * (2 - len(self._names))
        steps.set_states([(int(s.get("step", 0)), *map(s.get, self._names), *absent) for s in states])
        options = {k: v.item() if isinstance(v, Core) else v for k, v in group.items() if k != "params"}
        rule = "SGD" if isinstance(self, SGD) else "AdamW" if group["decoupled_weight_decay"] else "Adam"
        steps.set_options(rule, options)
        _core.optimizer_step([steps])
        for state, (_, *arrays) in zip(states, steps.shared_states(), strict=True):
            for name, array in zip(self._names, arrays, strict=False):
                if state.get(name) is None or state[name].dtype != array.dtype:
                    state[name] = array if array is None else wrap(array)
            if "step" in state:
                state["step"] += 1


class SGD(_Rule):
    """Gradient descent, with momentum.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """

    _names = ("momentum_buffer",)
    __init__ = constructor(
        "params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, "
        "maximize=False, foreach=None, differentiable=False, fused=None"
    )


_ADAM = (
    "params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay={decay}, amsgrad=False, *, maximize=False, "
    "foreach=None, capturable=False, differentiable=False, fused=None"
)


class Adam(_Rule):
    """Adam: steps by running averages of the gradient and of its square."""

    _names = ("exp_avg", "exp_avg_sq")
    __init__ = constructor(f"{_ADAM.format(decay=0)}, decoupled_weight_decay=False")


class AdamW(Adam):
    """Adam with weight decay that does not pass through the averages."""

    __init__ = constructor(_ADAM.format(decay=1e-2))

    def _configure(self, params, **defaults) -> None:
        super()._configure(params, **defaults, decoupled_weight_decay=True)
