"""Arrays joined, padded and split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import integer_of, shown
from .cutting import cut
from .docstrings import complete
from .sorting import _numbers_of

__all__ = ["concatenate", "pad", "split", "stack"]


@explained
def concatenate(tensors: Sequence[Numbers], axis: int = 0) -> Result:
    """
    Parameters
    ----------
    tensors : list or tuple of array_like or Tensor
        Equal shapes except along ``axis``.
    axis : int
        Where to join.

    Raises
    ------
    ValueError
        If there is nothing to join or the shapes differ elsewhere.

    Examples
    --------
    >>> qkv.concatenate([np.ones((2, 3)), np.ones((1, 3))]).shape
    (3, 3)
    """
    return _core.concatenate(tensors, axis)


@explained
def stack(tensors: Sequence[Numbers], axis: int = 0) -> Result:
    """
    Parameters
    ----------
    tensors : list or tuple of array_like or Tensor
    axis : int
        The place of the new axis in the result.

    Raises
    ------
    ValueError
        If there is nothing to join or the shapes differ.

    Examples
    --------
    >>> qkv.stack([np.ones(3), np.zeros(3)]).shape
    (2, 3)
    """
    return _core.stack(tensors, axis)


def _rows(x: Any, pad_width: Any) -> tuple[list[int], list[int]]:
    rank = len(x.shape) if hasattr(x, "shape") else np.ndim(x)
    widths = np.asarray(pad_width, dtype=object)
    good = all(isinstance(n, (int, np.integer)) for n in widths.reshape(-1))
    if not good or widths.ndim > 2 or (widths.ndim == 1 and widths.size > 2):
        raise TypeError(
            "pad: pad_width must be a number, (before, behind) for every axis, or a pair for each axis because axes "
            f"are counted from the first, as in NumPy; got {shown(pad_width)}"
        )
    try:
        pairs = np.broadcast_to(widths, (rank, 2)).tolist()
    except ValueError:
        raise ValueError(
            f"pad: pad_width must hold a pair for each of the {rank} axes; got {shown(pad_width)}"
        ) from None
    return [int(before) for before, _ in pairs], [int(behind) for _, behind in pairs]


@explained
def pad(
    x: Numbers,
    pad_width: ArrayLike,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    *,
    constant_values: float = 0,
) -> Result:
    """More places before and after each axis, as ``np.pad`` adds them.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype.
    pad_width : int, (int, int) or sequence of (int, int)
        How many places before and after: the same for every axis, or a pair for each axis from the first one.
        PyTorch's flat list begins with the last axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        What the new places hold: one number, the nearest number, the mirrored numbers without or with that at the edge,
        or the numbers from the other end.
    constant_values : number
        The one number.

    Returns
    -------
    ndarray or Tensor
        Differentiable in ``x``.

    Raises
    ------
    TypeError
        If ``pad_width`` is something else.
    ValueError
        If a width is negative, there is not a pair for each axis, or the mode is unknown.

    Examples
    --------
    >>> qkv.pad([[1, 2]], ((0, 1), (1, 0)))
    array([[0, 1, 2],
           [0, 0, 0]])
    """
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise ValueError(
            f"pad: mode must be 'constant', 'edge', 'reflect', 'symmetric' or 'wrap' because these are defined; "
            f"got {shown(mode)}"
        )
    before, behind = _rows(x, pad_width)
    if mode == "constant":
        value: Any = constant_values
        if isinstance(value, (tuple, list)):
            raise TypeError(f"pad: constant_values must be one number; got {shown(value)}")
        return _core.pad(x, before, behind, value)
    if any(n < 0 for n in before + behind):
        raise ValueError(f"pad: pad_width must hold numbers from 0; got {shown(pad_width)}")
    return np.pad(_numbers_of("pad", x), [*zip(before, behind, strict=True)], mode)


@explained
def split(
    x: Numbers, indices_or_sections: int | Sequence[int] | NDArray[np.integer], axis: int = 0
) -> list[Result]:
    """Cut an array into pieces along an axis, as ``np.split``.

    Parameters
    ----------
    x : array_like or Tensor
    indices_or_sections : int or sequence of int
        The number of equal pieces, or the places before which to cut, as in a slice.
    axis : int
        Negative ones count from the last.

    Returns
    -------
    list of ndarray or Tensor
        Views of the memory of ``x``; differentiable.

    Raises
    ------
    ValueError
        If the number of pieces does not divide the axis, or there is no such axis.
    TypeError
        If the places are no integers.

    Examples
    --------
    >>> q, k, v = qkv.split(np.arange(6.0).reshape(2, 3), 3, axis=1)
    >>> k
    array([[1.],
           [4.]])
    >>> [piece.tolist() for piece in qkv.split([1, 2, 3, 4], [1, 3])]
    [[1], [2, 3], [4]]
    """
    return cut("split", _numbers_of("split", x), indices_or_sections, integer_of("split", "axis", axis), True)


complete(__name__)
