"""Triangles, pads, running sums, sums of products, unit vectors: functions of whole arrays."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from . import _core
from ._core import Tensor
from ._errors import shown
from ._public import documents

__all__ = ["cumprod", "cumsum", "einsum", "normalize", "one_hot", "pad", "split", "tril", "triu"]


@documents(_core.tril)
def tril(x: Any, k: int = 0) -> Any:
    """The numbers on and below a diagonal of the last two axes; zeros above it.

    Parameters
    ----------
    x : array_like or Tensor
        ``(..., rows, columns)``, of any dtype.
    k : int
        Which diagonal: above the main one if positive, below if negative.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes.

    Examples
    --------
    >>> qkv.tril(np.ones((2, 3), dtype=int))
    array([[1, 0, 0],
           [1, 1, 0]])
    """
    return _core.tril(x, k)


@documents(_core.triu)
def triu(x: Any, k: int = 0) -> Any:
    """The numbers on and above a diagonal of the last two axes; zeros below it.

    Parameters
    ----------
    x : array_like or Tensor
        ``(..., rows, columns)``, of any dtype.
    k : int
        Which diagonal: above the main one if positive, below if negative.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes.

    Examples
    --------
    >>> qkv.triu(np.ones((2, 3), dtype=int), k=1)
    array([[0, 1, 1],
           [0, 0, 1]])
    """
    return _core.triu(x, k)


@documents(_core.cumprod)
def cumprod(x: Any, axis: int | None = None) -> Any:
    """Products of the numbers up to each place.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape; integers stay integers.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``x`` has no such axis.

    Examples
    --------
    >>> qkv.cumprod([[1, 2, 3], [4, 5, 6]], axis=1)
    array([[  1,   2,   6],
           [  4,  20, 120]])
    """
    return _core.cumprod(x, axis)


@documents(_core.cumsum)
def cumsum(x: Any, axis: int | None = None) -> Any:
    """Sums of the numbers up to each place.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape; integers stay integers.
    axis : int, optional
        Along which axis; None flattens ``x``.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Raises
    ------
    ValueError
        If ``x`` has no such axis.

    Examples
    --------
    >>> qkv.cumsum([[1, 2, 3], [4, 5, 6]], axis=1)
    array([[ 1,  3,  6],
           [ 4,  9, 15]])
    """
    return _core.cumsum(x, axis)


def _rows(x: Any, pad_width: Any) -> tuple[list[int], list[int], int]:
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
    return [int(before) for before, _ in pairs], [int(behind) for _, behind in pairs], rank


def pad(
    x: Any,
    pad_width: Any,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    *,
    constant_values: float = 0,
) -> Any:
    """More places before and behind each axis, as ``np.pad`` adds them.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape and dtype.
    pad_width : int, (int, int) or sequence of (int, int)
        How many places before and behind: the same for every axis, or a pair for each axis from the first one.
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
    before, behind, rank = _rows(x, pad_width)
    if mode == "constant":
        return _core.pad(x, before, behind, constant_values)
    if any(n < 0 for n in before + behind):
        raise ValueError(f"pad: pad_width must hold numbers from 0; got {shown(pad_width)}")
    y = x if isinstance(x, Tensor) else _core.as_numpy(x, "pad", "x")
    for axis in range(rank):
        if before[axis] or behind[axis]:
            places = np.pad(np.arange(y.shape[axis]), (before[axis], behind[axis]), mode)
            y = y[(slice(None),) * axis + (places,)]
    return y


def one_hot(ids: Any, num_classes: int | None = None) -> Any:
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


@documents(_core.normalize)
def normalize(x: Any, p: float = 2.0, axis: int | tuple[int, ...] | None = -1, eps: float = 1e-12) -> Any:
    """``x / max(|x|_p, eps)``: vectors of length 1 along an axis.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    p : float
        The order of the norm ``(sum |x|^p)^(1/p)``; 1, 2 and inf are the usual ones.
    axis : int or tuple of int, optional
        Along which axes the norm is taken, the last one unless given; None means all of them. PyTorch's default is
        axis 1.
    eps : float
        The least that is divided by.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable. A vector of zeros stays one.

    Raises
    ------
    ValueError
        If ``p`` or ``eps`` is not positive.

    Examples
    --------
    >>> qkv.normalize([3.0, 4.0])
    array([0.6, 0.8], dtype=float32)
    """
    return _core.normalize(x, p, axis, eps)


def einsum(subscripts: str, *operands: Any) -> Any:
    """Sums of products by names of axes: ``einsum("bqd,bkd->bqk", queries, keys)``.

    Parameters
    ----------
    subscripts : str
        A letter for each axis of each operand, separated by commas, and behind ``->`` those of the result; ``...``
        stands for axes that broadcast. Letters that the result lacks are summed over. Without ``->`` the result has
        the letters that occur once, in alphabetical order.
    *operands : array_like or Tensor
        As many as terms; integers beside floats count as float32, among themselves they stay integers.

    Returns
    -------
    ndarray or Tensor
        Differentiable; computed by matrix products, two operands at a time from the left.

    Raises
    ------
    TypeError
        If ``subscripts`` is no string.
    ValueError
        If a term does not name each axis of its operand, an axis has two sizes, or the numbers of terms and operands
        differ.

    Examples
    --------
    >>> qkv.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum: subscripts must be a string such as 'ij,jk->ik'; got {shown(subscripts)}")
    if not operands:
        raise ValueError("einsum: operands must hold an array for each term; got none")
    return _core.einsum(subscripts, operands)


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
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
    from ._numpy.moving import split as cut

    a = x if isinstance(x, Tensor) else _core.as_numpy(x, "split", "x")
    return cut("split", a, indices_or_sections, axis, True)
