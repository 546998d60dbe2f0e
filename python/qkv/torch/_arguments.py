"""What arguments must be, each told once; the words are made when one is refused."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .._errors import real, shown
from ._tensor import Core, Tensor, _core_shape

NUMBERS = (int, float, np.number, np.bool_)


def tensor(operation: str, name: str, value: Any) -> Any:
    """A Tensor."""
    if not isinstance(value, Core):
        raise TypeError(f"{operation}: {name} must be a Tensor; got {shown(value)}")
    return value


def number(operation: str, name: str, value: Any) -> Any:
    """A number, or that of a Tensor without axes, which may not record: its gradient would be lost."""
    if value.__class__ is float or value.__class__ is int:
        return value
    if isinstance(value, Core):
        if value.requires_grad:
            raise TypeError(
                f"{operation}: {name} must be a number because it gets no gradient; got a Tensor that requires one"
            )
        if _core_shape(value):
            raise TypeError(
                f"{operation}: {name} must be a number; got a Tensor of shape {_core_shape(value)}"
            )
        return value.item()
    if not isinstance(real(value), NUMBERS):
        raise TypeError(f"{operation}: {name} must be a number; got {shown(value)}")
    return value


def integer(operation: str, name: str, value: Any, least: int | None = None) -> int:
    """A whole number; True and False are none."""
    if value.__class__ is not int:
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            raise TypeError(f"{operation}: {name} must be an integer; got {shown(value)}")
        value = operator.index(value)
    if least is not None and value < least:
        raise RuntimeError(f"{operation}: {name} must be at least {least}; got {value}")
    return value  # type: ignore[no-any-return]


def flag(operation: str, name: str, value: Any) -> bool:
    """True or False."""
    if value is not True and value is not False:
        raise TypeError(f"{operation}: {name} must be True or False; got {shown(value)}")
    return value  # type: ignore[no-any-return]


def floating(operation: str, name: str, t: Any) -> Tensor:
    """A Tensor of floating numbers."""
    if tensor(operation, name, t).dtype.kind < 2:
        raise RuntimeError(f"{operation}: {name} must hold floating numbers; got {t.dtype}")
    return t  # type: ignore[no-any-return]
