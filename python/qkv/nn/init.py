"""Fill Tensors in place with PyTorch's initial values."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from .._public import explained, publish


def _draw(tensor: Tensor, kind: str, a: float, b: float, rng: Generator | None) -> Tensor:
    _core.fill(tensor, kind, a, b, _core.default_generator() if rng is None else rng)
    return tensor


@explained
def uniform(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution on ``[low, high)``.

    Parameters
    ----------
    tensor : Tensor
        A leaf; is overwritten.
    low, high : float
    rng : Generator, optional
        The common generator if not given.

    Returns
    -------
    Tensor
        The same object.

    Examples
    --------
    >>> qkv.nn.init.uniform(qkv.tensor(np.zeros((2, 3))), -1, 1).shape
    (2, 3)
    """
    return _draw(tensor, "uniform", low, high, rng)


@explained
def normal(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Draw from the normal distribution.

    Parameters
    ----------
    tensor : Tensor
        A leaf; is overwritten.
    mean, std : float
    rng : Generator, optional
        The common generator if not given.

    Returns
    -------
    Tensor
        The same object.

    Examples
    --------
    >>> qkv.nn.init.normal(qkv.tensor(np.zeros((2, 3))), std=0.02).shape
    (2, 3)
    """
    return _draw(tensor, "normal", mean, std, rng)


@explained
def xavier_uniform(tensor: Tensor, gain: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Uniform in ``+-gain sqrt(6 / (fan_in + fan_out))``.

    Parameters
    ----------
    tensor : Tensor
        ``(out, in, ...)``; is overwritten.
    gain : float
    rng : Generator, optional
        The common generator if not given.

    Returns
    -------
    Tensor
        The same object.

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes.

    References
    ----------
    Glorot, Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    Examples
    --------
    >>> qkv.nn.init.xavier_uniform(qkv.tensor(np.zeros((2, 3)))).shape
    (2, 3)
    """
    return _draw(tensor, "xavier_uniform", gain, 0.0, rng)


@explained
def xavier_normal(tensor: Tensor, gain: float = 1.0, *, rng: Generator | None = None) -> Tensor:
    """Normal with standard deviation ``gain sqrt(2 / (fan_in + fan_out))``.

    Parameters
    ----------
    tensor : Tensor
        ``(out, in, ...)``; is overwritten.
    gain : float
    rng : Generator, optional
        The common generator if not given.

    Returns
    -------
    Tensor
        The same object.

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes.

    Examples
    --------
    >>> qkv.nn.init.xavier_normal(qkv.tensor(np.zeros((2, 3)))).shape
    (2, 3)
    """
    return _draw(tensor, "xavier_normal", gain, 0.0, rng)


@explained
def kaiming_uniform(tensor: Tensor, a: float = math.sqrt(5), *, rng: Generator | None = None) -> Tensor:
    """Uniform in ``+-sqrt(6 / ((1 + a^2) fan_in))``; the default is what Linear uses, ``+-1 / sqrt(fan_in)``.

    Parameters
    ----------
    tensor : Tensor
        ``(out, in, ...)``; is overwritten.
    a : float
        Negative slope of a leaky ReLU after the layer.
    rng : Generator, optional
        The common generator if not given.

    Returns
    -------
    Tensor
        The same object.

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes.

    References
    ----------
    He et al., Delving Deep into Rectifiers, 2015.

    Examples
    --------
    >>> qkv.nn.init.kaiming_uniform(qkv.tensor(np.zeros((2, 3)))).shape
    (2, 3)
    """
    return _draw(tensor, "kaiming_uniform", a, 0.0, rng)


__all__: list[Any] = ["kaiming_uniform", "normal", "uniform", "xavier_normal", "xavier_uniform"]

publish(__name__)
