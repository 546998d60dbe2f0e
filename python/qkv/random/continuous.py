"""Uniform, normal and exponential numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from .._core import Generator
from .._public import explained
from ..functions.grad_mode import refuse_gradients
from .arguments import float_name, generator_of, shape_of, unpacked


def _drawn(name: str, draw: str, size: Any, dtype: Any, rng: Any, *numbers: float) -> npt.NDArray[Any]:
    generator = generator_of(name, rng)
    drawn: npt.NDArray[Any] = getattr(generator, draw)(
        *map(float, numbers), shape_of(name, size), float_name(name, dtype)
    )
    return drawn


@explained
def rand(
    *size: int | Sequence[int], dtype: npt.DTypeLike = "float32", rng: Generator | None = None
) -> npt.NDArray[Any]:
    """Uniform numbers in [0, 1).

    Parameters
    ----------
    *size : int
        The shape, as several integers or as one tuple; none for a 0-d array.
    dtype : {"float32", "float64"}
        float32 has 24 random bits and takes one word of the engine, float64 has 53 and takes two.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size``

    Raises
    ------
    TypeError
        If a size is not an integer or the dtype is another one.
    ValueError
        If a size is negative.

    Examples
    --------
    >>> import qkv
    >>> qkv.rand(2, 3).shape
    (2, 3)
    """
    return _drawn("rand", "_uniform", unpacked(size), dtype, rng, 0.0, 1.0)


@explained
def randn(
    *size: int | Sequence[int], dtype: npt.DTypeLike = "float32", rng: Generator | None = None
) -> npt.NDArray[Any]:
    """Normal numbers with mean 0 and standard deviation 1 (Box-Muller transform).

    Parameters
    ----------
    *size : int
        The shape, as several integers or as one tuple; none for a 0-d array.
    dtype : {"float32", "float64"}
        Type of the numbers.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size``

    Raises
    ------
    TypeError
        If a size is not an integer or the dtype is another one.
    ValueError
        If a size is negative.

    Notes
    -----
    As in PyTorch, fewer than 16 numbers are drawn in pairs, and the second one of a pair is kept for the
    next such call; from 16 on the array is drawn in blocks of 16 and, if 16 does not divide the size, the
    last 16 elements are drawn again. So ``randn(20)`` does not begin like ``randn(10)``.

    Examples
    --------
    >>> import qkv
    >>> qkv.randn((5, 7), dtype="float64").dtype
    dtype('float64')
    """
    return _drawn("randn", "_normal", unpacked(size), dtype, rng, 0.0, 1.0)


@explained
def uniform(
    low: float,
    high: float,
    size: int | Sequence[int],
    *,
    dtype: npt.DTypeLike = "float32",
    rng: Generator | None = None,
) -> npt.NDArray[Any]:
    """Uniform numbers in [low, high), ``low + (high - low) * u`` with one rounding.

    Parameters
    ----------
    low, high : float
        The bounds, rounded to ``dtype`` before use.
    size : int or tuple of int
        The shape.
    dtype : {"float32", "float64"}
        Type of the numbers.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size``
        Equal to ``torch.empty(size).uniform_(low, high)``.

    Raises
    ------
    TypeError
        If a size is not an integer or the dtype is another one.
    ValueError
        If ``low`` is above ``high``, one of them is not finite, or a size is negative.

    Examples
    --------
    >>> import qkv
    >>> x = qkv.uniform(-2, 5, 1000)
    >>> bool((x >= -2).all() and (x < 5).all())
    True
    """
    refuse_gradients(
        "uniform", "write low + (high - low) * qkv.rand(size), or detach() it", low=low, high=high
    )
    return _drawn("uniform", "_uniform", size, dtype, rng, low, high)


@explained
def normal(
    mean: float,
    std: float,
    size: int | Sequence[int],
    *,
    dtype: npt.DTypeLike = "float32",
    rng: Generator | None = None,
) -> npt.NDArray[Any]:
    """Normal numbers, ``mean + std * z`` with one rounding.

    Parameters
    ----------
    mean, std : float
        Mean and standard deviation; ``std`` may be 0.
    size : int or tuple of int
        The shape.
    dtype : {"float32", "float64"}
        Type of the numbers.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size``
        Equal to ``torch.normal(mean, std, size)``; see :func:`randn` for the order of the draws.

    Raises
    ------
    TypeError
        If a size is not an integer or the dtype is another one.
    ValueError
        If ``std`` or a size is negative.

    Examples
    --------
    >>> import qkv
    >>> qkv.normal(0.0, 0.5, (40,)).shape
    (40,)
    """
    refuse_gradients("normal", "write mean + std * qkv.randn(size), or detach() it", mean=mean, std=std)
    return _drawn("normal", "_normal", size, dtype, rng, mean, std)


@explained
def exponential(
    rate: float, size: int | Sequence[int], *, dtype: npt.DTypeLike = "float32", rng: Generator | None = None
) -> npt.NDArray[Any]:
    """Exponentially distributed numbers, ``-log(1 - u) / rate``.

    Parameters
    ----------
    rate : float
        The inverse of the mean, above 0.
    size : int or tuple of int
        The shape.
    dtype : {"float32", "float64"}
        Type of the numbers; they are computed in float64 and rounded.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size``
        Equal to ``torch.empty(size).exponential_(rate)``.

    Raises
    ------
    TypeError
        If a size is not an integer or the dtype is another one.
    ValueError
        If ``rate`` is not above 0 or a size is negative.

    Examples
    --------
    >>> import qkv
    >>> bool((qkv.random.exponential(2.0, 100) >= 0).all())
    True
    """
    refuse_gradients(
        "exponential", "write qkv.random.exponential(1.0, size) / rate, or detach() it", rate=rate
    )
    return _drawn("exponential", "_exponential", size, dtype, rng, rate)
