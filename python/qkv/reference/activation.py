"""Activation functions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained

Array = NDArray[np.float64]


@explained
def relu(x: ArrayLike) -> Array:
    """Compute ``max(x, 0)``.

    Examples
    --------
    >>> relu([-1.0, 2.0])
    array([0., 2.])
    """
    return np.maximum(np.asarray(x, np.float64), 0.0)


@explained
def sigmoid(x: ArrayLike) -> Array:
    """Compute ``1 / (1 + exp(-x))`` as ``exp(-log(1 + exp(-x)))``, which keeps the digits of tiny results.

    Examples
    --------
    >>> sigmoid([-1000.0, 0.0])
    array([0. , 0.5])
    """
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(x, np.float64))))


@explained
def tanh(x: ArrayLike) -> Array:
    """Compute the hyperbolic tangent.

    Examples
    --------
    >>> tanh([0.0])
    array([0.])
    """
    return np.tanh(np.asarray(x, np.float64))


@explained
def gelu(x: ArrayLike, approximate: str = "none") -> Array:
    """Compute ``x Phi(x)``, Phi the normal distribution function.

    Parameters
    ----------
    x : array, any shape
    approximate : "none" or "tanh"
        "tanh" is ``x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``.

    Returns
    -------
    ndarray, the shape of `x`

    Raises
    ------
    ValueError
        If `approximate` is neither.

    Examples
    --------
    >>> gelu([0.0, 1.0]).round(4)
    array([0.    , 0.8413])
    """
    x = np.asarray(x, np.float64)
    if approximate == "none":
        erf = np.vectorize(math.erf, otypes=[np.float64])
        return np.asarray(0.5 * x * (1.0 + erf(x / math.sqrt(2.0))))
    if approximate == "tanh":
        return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))
    raise ValueError(
        f"gelu: approximate must be 'none' or 'tanh' because these are the two forms; got {approximate!r}"
    )
