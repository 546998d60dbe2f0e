"""Triangles of matrices, and ids as rows of an identity matrix."""

from __future__ import annotations

from typing import Any

from . import _core

__all__ = ["one_hot", "tril", "triu"]


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
