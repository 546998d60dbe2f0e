"""Parameters: Tensors that a module learns."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ... import _core
from .._creation import empty
from .._tensor import Core, Tensor


class Parameter(Tensor):
    """A leaf that requires a gradient and is found by ``module.parameters()``. It shares the memory of `data`.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data=None, requires_grad: bool = True):
        t = empty(0) if data is None else data
        if not isinstance(t, Core):
            raise TypeError(f"Parameter: data must be a Tensor; got {type(t).__name__}")
        result = _core.instance_of(cls, t.detach())
        result._kind = getattr(t, "_kind", None)
        _core.mark_parameter(result)
        if requires_grad:
            result.requires_grad = True
        return result

    _learned = True

    def __repr__(self, *, tensor_contents=None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]):
        return type(self)(Tensor.clone(self.detach()), self.requires_grad)


class UninitializedParameter(Parameter):
    """A parameter whose shape is known when the first input comes."""

    def __new__(cls, requires_grad: bool = True, device=None, dtype=None):
        return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def materialize(self, shape: tuple[int, ...], device=None, dtype=None) -> None:
        """Become a Parameter of that shape."""
        _core.set_data(self, empty(*shape, device=device, dtype=dtype or self.dtype))
        self.__class__ = Parameter  # type: ignore[assignment]

    def __repr__(self, *, tensor_contents=None) -> str:
        return "<UninitializedParameter>"

    def __deepcopy__(self, memo: dict[int, Any]):
        memo[id(self)] = type(self)(self.requires_grad)
        return memo[id(self)]


def check_part(what: str, name, value, kind: type) -> None:
    """Refuse what cannot be a part of a module: a name that state dicts could not tell apart, another kind of thing."""
    if not isinstance(name, str):
        raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
    if not name or "." in name:
        raise KeyError(f'{what} name can\'t be empty or contain "."; got {name!r}')
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"cannot assign {type(value).__name__!r} object to {what} {name!r}: {kind.__name__} or None required"
            + _way_out(value)
        )


def is_of_other_torch(value) -> bool:
    """Whether it is a module or a parameter of PyTorch, which nothing here would train."""
    return "torch" in sys.modules and any(c.__module__.startswith("torch.nn.") for c in type(value).__mro__)


def _way_out(value) -> str:
    """Say where what another library has made is to be taken from."""
    home, _, rest = type(value).__module__.partition(".")
    library, name = rest.rpartition(".")[2] if home == "einops" else "torch", type(value).__name__
    if home == "einops":
        instead = f"write from qkv.torch.einops import {name}"
    elif home == "torch":
        instead = "take its name from qkv.torch"
    elif is_of_other_torch(value):
        instead = "derive its class from qkv.torch.nn.Module"
    else:
        return ""
    return f"; it is one of another library, {library}: {instead}"


def forget_gradients(parameters: Iterable[Any], set_to_none: bool) -> None:
    """Take the gradients away, or make them 0 where they are."""
    for parameter in parameters:
        if set_to_none or parameter.grad is None:
            parameter.grad = None
        else:
            _core.instance_of(Tensor, parameter.grad).zero_()
