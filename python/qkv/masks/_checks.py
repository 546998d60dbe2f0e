"""Arguments of masks."""

from __future__ import annotations

from typing import Any

from .._formulas import array_of
from .._words.errors import count_of, shown


def check(operation: str, least: int, **numbers: Any) -> None:
    for name, number in numbers.items():
        count_of(operation, name, number, least)


def check_functions(operation: str, masks: tuple[Any, ...]) -> None:
    for mask in masks:
        if not callable(mask):
            raise TypeError(f"{operation}: masks must be functions (b, h, q_idx, kv_idx); got {shown(mask)}")


def ids_of(operation: str, ids: Any) -> Any:
    """Return the ids of positions as an array to capture."""
    array = array_of(operation, "ids", ids)
    if len(array.shape) not in (1, 2):
        raise ValueError(f"{operation}: ids must be (L,) or (B, L); got ids {tuple(array.shape)}")
    return array


def id_at(ids: Any, b: Any, position: Any) -> Any:
    return ids[position] if len(ids.shape) == 1 else ids[b, position]
