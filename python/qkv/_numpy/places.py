"""Where the numbers are that an index of arrays selects: in memory for the result, not for what is indexed."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

_ZERO = np.zeros((), np.int8)


def places(shape: tuple[int, ...], strides: tuple[int, ...], items: tuple[Any, ...]) -> Any:
    """Offsets in memory, counted in numbers, of what NumPy selects of an array of this shape; its errors, too."""
    operator.getitem(np.broadcast_to(_ZERO, shape), items)  # NumPy's rules and words
    offsets, index = _selected(shape, strides, items)
    if len(index) == len(offsets) and all(
        isinstance(item, np.ndarray) and item.dtype != bool for item in index
    ):
        return sum(at.reshape(item.shape) for at, item in zip(offsets, index, strict=True))
    left = tuple(len(at) for at in offsets)
    total = np.zeros((), np.int64)[() if left else index]
    for axis, at in enumerate(offsets):
        one = at.reshape([-1 if other == axis else 1 for other in range(len(left))])
        total = total + np.broadcast_to(one, left)[index]
    return total


def _selected(shape: Any, strides: Any, items: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """What an index leaves of each axis, as offsets, and an index of that in the same order and layout."""
    arrays = [item if _is_plain(item) else np.asarray(item) for item in items]
    used = sum(item.ndim if item.dtype == bool else 1 for item in arrays if isinstance(item, np.ndarray))
    used += sum(isinstance(item, slice) for item in arrays)
    offsets: list[Any] = []
    index: list[Any] = []

    def cut(one: slice) -> None:
        axis = len(offsets)
        offsets.append(np.arange(*one.indices(shape[axis])) * strides[axis])

    for item in arrays:
        if item is None or (isinstance(item, np.ndarray) and item.dtype == bool and item.ndim == 0):
            index.append(item)
        elif isinstance(item, slice):
            cut(item)
            index.append(slice(None))
        elif item is ...:
            for _ in range(len(shape) - used):
                cut(slice(None))
            index.append(...)  # arrays before and after it are apart, though it stands for no axis
        else:
            for one in item.nonzero() if item.dtype == bool else [item]:
                axis = len(offsets)
                at = one.astype(np.int64, copy=False)
                offsets.append(np.where(at < 0, at + shape[axis], at).ravel() * strides[axis])
                index.append(np.arange(at.size).reshape(at.shape))
    while len(offsets) < len(shape):
        cut(slice(None))
    return offsets, tuple(index)


def _is_plain(item: Any) -> bool:
    return item is None or item is ... or isinstance(item, slice)
