"""Numbers in order, and the places that they have or that ids name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _core
from .._core import Tensor
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import shown
from .docstrings import complete

__all__ = ["argsort", "one_hot", "sort", "take_along_axis", "topk"]


def _numbers_of(operation: str, x: Any) -> Any:
    """A Tensor as it is, or an array; Python's floats count as float32."""
    if isinstance(x, Tensor):
        return x
    array = _core.as_numpy(x, operation, "x")
    return array.astype(np.float32) if array.dtype.kind == "f" and not hasattr(x, "dtype") else array


@explained
def argsort(x: Numbers, axis: int | None = -1, *, descending: bool = False) -> Result:
    """The places of the sorted numbers; equal numbers keep their order.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype. NaN is larger than every number.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor of int64
        ``x[argsort(x)]`` is sorted for one axis; see :func:`take_along_axis` for more.

    Examples
    --------
    >>> qkv.argsort([3.0, 1.0, 2.0])
    array([1, 2, 0])
    """
    return _sorted("argsort", x, axis, descending)[1]


def _sorted(operation: str, x: Any, axis: Any, descending: bool) -> Any:
    numbers = _numbers_of(operation, x)
    if axis is None:
        numbers, axis = numbers.reshape(-1), -1
    rank = numbers.ndim
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(f"{operation}: axis must be one number or None; got {shown(axis)}")
    if not -rank <= axis < rank:
        raise ValueError(
            f"{operation}: axis must be from {-rank} to {rank - 1} because the array has {rank} axes; got {axis}"
        )
    return _core.sort(numbers, int(axis), bool(descending))


@explained
def sort(x: Numbers, axis: int | None = -1, *, descending: bool = False) -> Result:
    """The numbers in order; PyTorch gives their places as well, which :func:`argsort` does here.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype. NaN is larger than every number.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable: the gradient goes to where the numbers came from.

    Examples
    --------
    >>> qkv.sort([3.0, 1.0, 2.0], descending=True)
    array([3., 2., 1.], dtype=float32)
    """
    return _sorted("sort", x, axis, descending)[0]


@explained
def topk(x: Numbers, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Result, Result]:
    """The ``k`` largest numbers along an axis, the largest first, and where they are.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype. NaN is larger than every number.
    k : int
        How many.
    largest : bool
        False gives the smallest, the smallest first.

    Returns
    -------
    values : ndarray or Tensor
        ``k`` numbers along the axis; differentiable.
    indices : ndarray or Tensor of int64
        Their places. Of equal numbers the first ones are taken.

    Raises
    ------
    ValueError
        If there are fewer than ``k`` numbers, or ``x`` has no such axis.

    Examples
    --------
    >>> values, indices = qkv.topk([1.0, 4.0, 2.0, 3.0], 2)
    >>> values, indices
    (array([4., 3.], dtype=float32), array([1, 3]))
    """
    return _core.topk(x, k, axis, largest)


@explained
def take_along_axis(x: Numbers, indices: ArrayLike, axis: int = -1) -> Result:
    """The numbers at these places of an axis, for each place of the other axes (PyTorch's ``gather``).

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype.
    indices : array_like of int
        In the shape of ``x`` except for the axis; negative ones count from the end.
    axis : int
        Which axis they count along.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``indices``; differentiable.

    Raises
    ------
    ValueError
        If the shapes differ on another axis, or an index is out of range.

    Examples
    --------
    >>> qkv.take_along_axis([[1, 2], [3, 4]], [[1], [0]])
    array([[2],
           [3]])
    """
    return _core.take_along_axis(x, indices, axis)


@explained
def one_hot(ids: ArrayLike, num_classes: int | None = None) -> Result:
    """1 at the place of each id, 0 elsewhere.

    Parameters
    ----------
    ids : array_like of int
        ``(...)``, each from 0 to ``num_classes - 1``.
    num_classes : int, optional
        One more than the largest id unless given (or -1, as in PyTorch).

    Returns
    -------
    ndarray or Tensor of int64
        ``(..., num_classes)``.

    Raises
    ------
    TypeError
        If ``ids`` are not integers.
    ValueError
        If an id is no class.

    Examples
    --------
    >>> qkv.one_hot([1, 0], 3)
    array([[0, 1, 0],
           [1, 0, 0]])
    """
    return _core.one_hot(ids, None if num_classes == -1 else num_classes)


complete(__name__)
