"""Checks of the arguments that the random functions share."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import Generator, as_numpy, default_generator
from .._words.errors import real, shown
from ..functions.grad_mode import refuse_gradients

DEFAULT: Generator = default_generator()
_FLOATS: dict[Any, str] = {np.dtype(np.float32): "float32", np.dtype(np.float64): "float64"}


def generator_of(operation: str, rng: Generator | None) -> Generator:
    if rng is None:
        return DEFAULT
    if not isinstance(rng, Generator):
        raise TypeError(
            f"{operation}: rng must be a qkv.Generator because it owns the stream; got {type(rng).__name__}"
        )
    return rng


def unpacked(size: tuple[int | Sequence[int], ...]) -> Any:
    """``rand(2, 3)`` and ``rand((2, 3))`` mean the same."""
    return size[0] if len(size) == 1 else size


def shape_of(operation: str, size: Any, name: str = "size") -> tuple[int, ...]:
    try:
        given = tuple((size,) if np.ndim(size) == 0 else size)
        shape = tuple(operator.index(n) for n in given)
    except (TypeError, ValueError):
        given, shape = (True,), ()
    if any(isinstance(n, bool) for n in given):
        raise TypeError(
            f"{operation}: {name} must be integers or a tuple of integers because it is a shape; got {shown(size)}"
        )
    if any(n < 0 for n in shape):
        raise ValueError(
            f"{operation}: {name} must not be negative because it is a shape; got {shown(shape)}"
        )
    return shape


def float_name(operation: str, dtype: npt.DTypeLike) -> str:
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        got = shown(dtype)
    else:
        if wanted in _FLOATS:  # a dtype takes long to say its name
            return _FLOATS[wanted]
        got = str(wanted)
    raise TypeError(f"{operation}: dtype must be float32 or float64 because only these are drawn; got {got}")


def floats(operation: str, name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Contiguous; lists of numbers and integers count as float32, as in all functions. Draws have no gradient."""
    refuse_gradients(operation, **{name: values})
    array = as_numpy(real(values), operation, name)
    keeps = array.dtype == np.float64 and not isinstance(values, (list, tuple, float))
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float64 if keeps else np.float32, order="C")
