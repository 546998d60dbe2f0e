"""Functions of each number: exponential and its like, limits, the larger, the smaller, one of two."""

from __future__ import annotations

from numpy.typing import ArrayLike

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .docstrings import complete

__all__ = ["abs", "clip", "cos", "erf", "exp", "exp2", "log", "maximum", "minimum", "sin", "sqrt", "where"]


@explained
def exp(x: Numbers) -> Result:
    """
    >>> float(qkv.exp(0.0))
    1.0
    """
    return _core.exp(x)


@explained
def exp2(x: Numbers) -> Result:
    """
    >>> float(qkv.exp2(3.0))
    8.0
    """
    return _core.exp2(x)


@explained
def log(x: Numbers) -> Result:
    """
    >>> float(qkv.log(1.0))
    0.0
    """
    return _core.log(x)


@explained
def sqrt(x: Numbers) -> Result:
    """
    >>> float(qkv.sqrt(4.0))
    2.0
    """
    return _core.sqrt(x)


@explained
def sin(x: Numbers) -> Result:
    """
    >>> float(qkv.sin(0.0))
    0.0
    """
    return _core.sin(x)


@explained
def cos(x: Numbers) -> Result:
    """
    >>> float(qkv.cos(0.0))
    1.0
    """
    return _core.cos(x)


@explained
def erf(x: Numbers) -> Result:
    """
    >>> float(qkv.erf(0.0))
    0.0
    """
    return _core.erf(x)


@explained
def abs(x: Numbers) -> Result:
    """
    >>> float(qkv.abs(-2.0))
    2.0
    """
    return _core.abs(x)


@explained
def clip(x: Numbers, low: float | None = None, high: float | None = None) -> Result:
    """
    Parameters
    ----------
    low : float, optional
        None leaves this side open; NaN makes all NaN, as in NumPy.
    high : float, optional
        Likewise.

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


@explained
def where(condition: ArrayLike, a: Numbers, b: Numbers) -> Result:
    """
    Parameters
    ----------
    condition : array_like of bool
        It broadcasts, too.

    Returns
    -------
    ndarray or Tensor
        Gradients flow to the side that was chosen.

    Examples
    --------
    >>> qkv.where([True, False], [1.0, 2.0], 0.0)
    array([1., 0.], dtype=float32)
    """
    return _core.where(condition, a, b)


@explained
def maximum(a: Numbers, b: Numbers) -> Result:
    """
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


@explained
def minimum(a: Numbers, b: Numbers) -> Result:
    """
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


complete(__name__)
