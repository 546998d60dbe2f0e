"""Functions of each number: exponential and its like, limits, the larger, the smaller, one of two."""

from __future__ import annotations

from typing import Any

from . import _core
from ._operations import OPERATIONS

__all__ = ["abs", "clip", "cos", "erf", "exp", "exp2", "log", "maximum", "minimum", "sin", "sqrt", "where"]


def _of_one(name: str, example: str) -> Any:
    """A function of the table of operations."""
    compiled, row = getattr(_core, name), OPERATIONS[name]

    def function(x: Any) -> Any:
        return compiled(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{row.formula}, element by element.

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
    >>> {example}
    """
    return function


exp = _of_one("exp", "float(qkv.exp(0.0))\n    1.0")
exp2 = _of_one("exp2", "float(qkv.exp2(3.0))\n    8.0")
log = _of_one("log", "float(qkv.log(1.0))\n    0.0")
sqrt = _of_one("sqrt", "float(qkv.sqrt(4.0))\n    2.0")
sin = _of_one("sin", "float(qkv.sin(0.0))\n    0.0")
cos = _of_one("cos", "float(qkv.cos(0.0))\n    1.0")
erf = _of_one("erf", "float(qkv.erf(0.0))\n    0.0")
abs = _of_one("abs", "float(qkv.abs(-2.0))\n    2.0")


def clip(x: Any, low: float | None = None, high: float | None = None) -> Any:
    """Numbers below ``low`` become ``low``, numbers above ``high`` become ``high``; these get no gradient.

    Parameters
    ----------
    x : array_like or Tensor
        Any shape.
    low, high : float, optional
        None leaves that side open; NaN makes all NaN, as in NumPy.

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
