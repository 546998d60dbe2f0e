"""What `qkv.torch` offers to call: PyTorch's names, few of which are in an `__all__`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from . import torch_values
from .statements import INTERNAL, Parameter, Target, core_methods, parameters_of

MODULES = """torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.optim
torch.optim.lr_scheduler torch.autograd torch.autograd.functional torch.utils.data"""
# Python calls these by itself, with strings.
ATTRIBUTES = {"__getattr__", "__setattr__", "__delattr__"}
# What is not to be called with anything.
LEFT_OUT = {
    "torch.save": "writes files",
    "torch.load": "reads files",
    "torch.dtype": "made by torch alone",
    "torch.Tensor.__array__": "NumPy's conversion, with NumPy's warnings",
    "torch.Tensor.__array_function__": "called by NumPy alone",
    "torch.nn.ModuleDict.__getitem__": "a dictionary's KeyError",
    "torch.nn.ModuleDict.__delitem__": "a dictionary's KeyError",
    "torch.nn.ModuleDict.pop": "a dictionary's KeyError",
}


def public_torch() -> list[Target]:
    """Functions, constructors, methods and operators under PyTorch's names."""
    targets: list[Target] = []
    seen: set[int] = set()
    for path in MODULES.split():
        holder: Any = importlib.import_module("qkv.torch")
        for part in path.split(".")[1:]:
            holder = getattr(holder, part)
        for short, value in sorted(vars(holder).items(), key=_aliases_last):
            name = f"{path}.{short}"
            if short.startswith("_") or name in LEFT_OUT or id(value) in seen or not _belongs(value, path):
                continue
            seen.add(id(value))
            targets.append(_target(name, _own(value)))
            if isinstance(value, type):
                targets += _methods_of(name, value)
    return targets


def _aliases_last(item: tuple[str, Any]) -> tuple[bool, str]:
    return item[0] != getattr(item[1], "__name__", ""), item[0]


def _belongs(value: Any, path: str) -> bool:
    """Whether it can be called and is defined in this folder; what others import from there is not theirs."""
    folder = f"qkv.{'.'.join(path.split('.')[:2])}"
    return (
        callable(value)
        and str(getattr(value, "__module__", "")).startswith(folder)
        and getattr(value, "__name__", "") != "refuse_attribute"
    )


def _target(expression: str, parameters: tuple[Parameter, ...], receiver: str = "") -> Target:
    return Target(expression, parameters, receiver, words=torch_values)


def _own(value: Any, method: bool = False) -> tuple[Parameter, ...]:
    """Parameters that a user gives: a method's first one is the Tensor, under any name."""
    found = tuple(p for p in parameters_of(value) if not p.name.startswith("_"))
    if method and found and not found[0].rest and next(iter(inspect.signature(value).parameters)) != "self":
        return found[1:]
    return found


def _methods_of(name: str, cls: type) -> list[Target]:
    """Methods that the class or a private base defines; of the Tensor also those of the core."""
    found: dict[str, tuple[Parameter, ...]] = {}
    for base in cls.__mro__:
        if base is cls or (base.__module__.startswith("qkv.torch") and base.__name__.startswith("_")):
            for method, member in vars(base).items():
                if inspect.isfunction(inspect.unwrap(member)) and (
                    method.startswith("__") or not method.startswith("_")
                ):
                    found.setdefault(method, _own(member, method=True))
    for method in found:  # the forms in place pass on what they are given
        if method.endswith("_") and method[:-1] in found:
            found[method] = found[method[:-1]]
    if name == "torch.Tensor":
        for method, parameters in core_methods()["Tensor"].items():
            found.setdefault(method, parameters)
    return [
        _target(method, found[method], name)
        for method in sorted(found)
        if method not in INTERNAL | ATTRIBUTES and f"{name}.{method}" not in LEFT_OUT
    ]
