"""Elementwise functions, selection, joining and products of arrays and Tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from ._public import documents

__all__ = [
    "abs",
    "clip",
    "concatenate",
    "cos",
    "erf",
    "exp",
    "log",
    "logsumexp",
    "matmul",
    "maximum",
    "minimum",
    "sin",
    "sqrt",
    "stack",
    "where",
]


def _unary(name: str, formula: str, example: str) -> Any:
    compiled = getattr(_core, name)

    def function(x: Any) -> Any:
        return compiled(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{formula}, element by element.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``; differentiable.

    Examples
    --------
    {example}
    """
    return documents(compiled)(function)


exp = _unary("exp", "Exponential ``e^x``", ">>> float(qkv.exp(0.0))\n    1.0")
log = _unary("log", "Natural logarithm; -inf at 0, NaN below", ">>> float(qkv.log(1.0))\n    0.0")
sqrt = _unary("sqrt", "Square root; NaN below 0", ">>> float(qkv.sqrt(4.0))\n    2.0")
sin = _unary("sin", "Sine of an angle in radians", ">>> float(qkv.sin(0.0))\n    0.0")
cos = _unary("cos", "Cosine of an angle in radians", ">>> float(qkv.cos(0.0))\n    1.0")
erf = _unary(
    "erf", "``2 / sqrt(pi)`` times the integral of ``e^(-t^2)`` from 0", ">>> float(qkv.erf(0.0))\n    0.0"
)
abs = _unary("abs", "Absolute value; its gradient at 0 is 0", ">>> float(qkv.abs(-2.0))\n    2.0")


@documents(_core.clip)
def clip(x: Any, low: float | None = None, high: float | None = None) -> Any:
    """Numbers below ``low`` become ``low``, numbers above ``high`` become ``high``; these get no gradient.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    low, high : float, optional
        None leaves that side open.

    Returns
    -------
    ndarray or Tensor
        In the shape of ``x``.

    Raises
    ------
    ValueError
        If ``low`` is above ``high``, or one of them is too large for ``x``'s dtype.

    Examples
    --------
    >>> qkv.clip([-2.0, 0.5, 2.0], -1, 1)
    array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return _core.clip(x, low, high)


@documents(_core.logsumexp)
def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` over an axis, safe for numbers of any size; its gradient is the softmax.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    axis : int or tuple of int, optional
        None means all of them.
    keepdims : bool
        Keep the reduced axes with size 1.

    Returns
    -------
    ndarray or Tensor

    Examples
    --------
    >>> round(float(qkv.logsumexp([1000.0, 1000.0])), 3)
    1000.693
    """
    return _core.logsumexp(x, axis, keepdims)


@documents(_core.where)
def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, ``b`` elsewhere; all three broadcast.

    Parameters
    ----------
    condition : array_like of bool
    a, b : array_like or Tensor
        Gradients flow to the side that was chosen.

    Returns
    -------
    ndarray or Tensor

    Examples
    --------
    >>> qkv.where([True, False], [1.0, 2.0], 0.0)
    array([1., 0.], dtype=float32)
    """
    return _core.where(condition, a, b)


@documents(_core.maximum)
def maximum(a: Any, b: Any) -> Any:
    """The larger of two numbers, element by element; both broadcast.

    Parameters
    ----------
    a, b : array_like or Tensor
        The gradient flows to the larger one; equal ones share it.

    Returns
    -------
    ndarray or Tensor
        NaN where one of them is.

    Examples
    --------
    >>> qkv.maximum([1.0, 5.0], 3.0)
    array([3., 5.], dtype=float32)
    """
    return _core.maximum(a, b)


@documents(_core.minimum)
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two numbers, element by element; both broadcast.

    Parameters
    ----------
    a, b : array_like or Tensor
        The gradient flows to the smaller one; equal ones share it.

    Returns
    -------
    ndarray or Tensor
        NaN where one of them is.

    Examples
    --------
    >>> qkv.minimum([1.0, 5.0], 3.0)
    array([1., 3.], dtype=float32)
    """
    return _core.minimum(a, b)


@documents(_core.concatenate)
def concatenate(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays along an axis that they have.

    Parameters
    ----------
    tensors : list or tuple of array_like or Tensor
        Equal shapes except along ``axis``.
    axis : int
        Where to join.

    Returns
    -------
    ndarray or Tensor

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


@documents(_core.stack)
def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays of equal shape along a new axis.

    Parameters
    ----------
    tensors : list or tuple of array_like or Tensor
    axis : int
        Where the new axis stands in the result.

    Returns
    -------
    ndarray or Tensor

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


@documents(_core.matmul)
def matmul(a: Any, b: Any) -> Any:
    """Matrix product ``a @ b`` by NumPy's rules: the last two axes multiply, the others broadcast.

    Parameters
    ----------
    a : array_like or Tensor
        ``(..., M, K)`` or ``(K,)``.
    b : array_like or Tensor
        ``(..., K, N)`` or ``(K,)``.

    Returns
    -------
    ndarray or Tensor
        ``(..., M, N)``; differentiable. Of integers exact integers, as in NumPy; beside floats they
        count as float32.

    Raises
    ------
    ValueError
        If ``K`` differs or the other axes do not broadcast.

    Examples
    --------
    >>> qkv.matmul(np.ones((2, 3, 4)), np.ones((2, 4, 5))).shape
    (2, 3, 5)
    """
    return _core.matmul(a, b)
