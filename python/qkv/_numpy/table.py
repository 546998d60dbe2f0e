"""Which function of NumPy's is answered by what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import UnsupportedError

TABLE: dict[Any, Callable[..., Any]] = {}
_NO_VALUE = np._NoValue


def register(implementation: Callable[..., Any], *names: str) -> None:
    """Answer the functions of these names; not every NumPy has every name."""
    for name in names:
        module, function = (np.linalg, name[len("linalg.") :]) if name.startswith("linalg.") else (np, name)
        if hasattr(module, function):
            TABLE[getattr(module, function)] = implementation


# Those that need no floating numbers: they move numbers, or tell sizes.
ANY_DTYPE: set[Any] = set()


def any_dtype(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate what answers the functions of these names for Tensors of every dtype."""

    def decorate(implementation: Callable[..., Any]) -> Callable[..., Any]:
        before = set(TABLE)
        register(implementation, *names)
        ANY_DTYPE.update(set(TABLE) - before)
        return implementation

    return decorate


def registered(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate what answers the functions of these names."""

    def decorate(implementation: Callable[..., Any]) -> Callable[..., Any]:
        register(implementation, *names)
        return implementation

    return decorate


# What answers calls by position alone, and of how many arguments at most: the Tensor's own method or function.
METHODS: dict[Any, tuple[Callable[..., Any], int]] = {}


def method(name: str, answer: Callable[..., Any], most: int) -> None:
    """Let calls of a function by at most so many positions go to what needs no function of Python's between."""
    METHODS[getattr(np, name)] = (answer, most)


def answers() -> dict[Any, tuple[Callable[..., Any], bool, Callable[..., Any] | None, int]]:
    """Return what cpp/bindings/tensor/numpy_functions.cpp asks of each function."""
    return {f: (answer, f in ANY_DTYPE, *METHODS.get(f, (None, 0))) for f, answer in TABLE.items()}


def only(**options: Any) -> None:
    """Refuse options that are not known here and were given."""
    for value in options.values():
        if value is not None and value is not _NO_VALUE:
            given = [name for name, one in options.items() if one is not None and one is not _NO_VALUE]
            raise UnsupportedError(f"{', '.join(given)} is not known here")
