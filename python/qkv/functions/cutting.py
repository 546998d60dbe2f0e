"""Arrays cut into pieces along an axis: what `split` of qkv and NumPy's functions of Tensors have in common."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .._words.errors import integer_of


def axis_of(axis: Any, ndim: int) -> int:
    """Count an axis from the first."""
    if type(axis) is int and 0 <= axis < ndim:
        return axis
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise ValueError(
            f"axis must be from {-ndim} to {ndim - 1} because the array has {ndim} axes; got {number}"
        )
    return number % ndim


def pieces(a: Any, places: Sequence[Any], axis: int) -> list[Any]:
    """Cut before each of these places of an axis."""
    before, edges = (slice(None),) * axis, [0, *places, a.shape[axis]]
    parts = [(*before, slice(first, last)) for first, last in pairwise(edges)]
    return [a[part] for part in parts]


def cut(operation: str, a: Any, sections: Any, axis: Any, even: bool) -> list[Any]:
    """Cut into so many pieces, equal ones where `even`, or before these places."""
    axis = axis_of(axis, a.ndim)
    if isinstance(sections, (list, tuple)) or np.ndim(sections) > 0:
        return pieces(a, [integer_of(operation, "indices_or_sections", place) for place in sections], axis)
    size, count = a.shape[axis], integer_of(operation, "indices_or_sections", sections)
    if count < 1:
        raise ValueError(f"{operation}: the number of sections must be at least 1; got {count}")
    share, rest = divmod(size, count)
    if even and rest:
        raise ValueError(
            f"{operation}: the sections must be equal because their number is given; got {count} sections of {size}"
        )
    return pieces(a, [i * share + min(i, rest) for i in range(1, count)], axis)
