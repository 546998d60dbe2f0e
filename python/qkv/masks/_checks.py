"""Arguments of masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._errors import count_of, shown
from .._formulas import array_of


def check(operation: str, least: int, **numbers: Any) -> None:
    for name, number in numbers.items():
        count_of(operation, name, number, least)


def check_functions(operation: str, masks: tuple[Any, ...]) -> None:
    for mask in masks:
        if not callable(mask):
            raise TypeError(f"{operation}: masks must be functions (b, h, q_idx, kv_idx); got {shown(mask)}")


def ids_of(operation: str, ids: Any) -> Callable[[Any, Any], Any]:
    """Give what reads the id of a batch entry's position."""
    array = array_of(operation, "ids", ids)
    if len(array.shape) == 1:
        return lambda b, position: array[position]
    if len(array.shape) == 2:
        return lambda b, position: array[b, position]
    raise ValueError(f"{operation}: ids must be (L,) or (B, L); got ids {tuple(array.shape)}")
