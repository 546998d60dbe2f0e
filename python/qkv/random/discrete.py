"""Integers, permutations and draws with given probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import Generator
from .._public import explained
from .._words.errors import count_of, integer_of
from ..functions.grad_mode import refuse_gradients
from .arguments import float_name, floats, generator_of, shape_of


@explained
def randint(
    low: int, high: int, size: int | Sequence[int], *, rng: Generator | None = None
) -> npt.NDArray[np.int64]:
    """Integers in [low, high), ``low + w % (high - low)`` of a random word ``w``.

    Parameters
    ----------
    low, high : int
        Bounds in [-2**63, 2**63); ``high`` is exclusive.
    size : int or tuple of int
        The shape.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray of int64, shape ``size``

    Raises
    ------
    TypeError
        If a bound or a size is not an integer.
    ValueError
        If ``low`` is not below ``high``, a bound has more than 64 bits, or a size is negative.

    Notes
    -----
    The word has 32 bits, or 64 if the range is 2**28 or more. The remainder is not exactly uniform, as in
    PyTorch: probabilities differ by up to one part in 16.

    Examples
    --------
    >>> import qkv
    >>> qkv.randint(0, 6, 4).dtype
    dtype('int64')
    """
    low, high = integer_of("randint", "low", low), integer_of("randint", "high", high)
    drawn: npt.NDArray[np.int64] = generator_of("randint", rng)._randint(low, high, shape_of("randint", size))
    return drawn


@explained
def randperm(n: int, *, rng: Generator | None = None) -> npt.NDArray[np.int64]:
    """A random permutation of 0 .. n - 1 (Fisher-Yates).

    Parameters
    ----------
    n : int
        The number of elements.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray of int64, shape (n,)

    Raises
    ------
    TypeError
        If ``n`` is not an integer.
    ValueError
        If ``n`` is negative.

    Examples
    --------
    >>> import qkv
    >>> sorted(qkv.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    drawn: npt.NDArray[np.int64] = generator_of("randperm", rng)._randperm(count_of("randperm", "n", n))
    return drawn


@explained
def bernoulli(
    p: npt.ArrayLike,
    size: int | Sequence[int] | None = None,
    *,
    dtype: npt.DTypeLike = "float32",
    rng: Generator | None = None,
) -> npt.NDArray[Any]:
    """Ones with probability ``p``, else zeros.

    Parameters
    ----------
    p : float or array_like
        A probability, or an array of them, one for each element.
    size : int or tuple of int
        The shape, where ``p`` is a number; with an array it must be left out.
    dtype : {"float32", "float64", "bool"}
        Type of the result where ``p`` is a number; the drawn values are the same for all three. An array
        of probabilities gives a result of its own type (float32 for anything but float64).
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray, shape ``size`` or that of ``p``
        Equal to ``torch.empty(size).bernoulli_(p)``, which compares float64 uniforms with ``p``, or to
        ``torch.bernoulli(p)``, which draws uniforms of the array's type. The two use the stream differently.

    Raises
    ------
    TypeError
        If a size is missing or not an integer, or the dtype is another one.
    ValueError
        If a probability is outside [0, 1] or a size is negative.

    Examples
    --------
    >>> import qkv
    >>> keep = qkv.bernoulli(0.9, (3, 5), dtype="bool")
    >>> keep.shape, str(keep.dtype)
    ((3, 5), 'bool')
    """
    refuse_gradients("bernoulli", p=p)
    generator = generator_of("bernoulli", rng)
    if np.ndim(p) > 0:
        if size is not None:
            raise TypeError(
                f"bernoulli: size must be left out because an array p has a shape; got size = {size}"
            )
        drawn: npt.NDArray[Any] = generator._bernoulli_each(floats("bernoulli", "p", p))
        return drawn
    if size is None:
        raise TypeError("bernoulli: size must be given because p is one number; got size = None")
    name = "bool" if dtype in ("bool", bool, np.bool_, np.dtype(bool)) else float_name("bernoulli", dtype)
    drawn = generator._bernoulli(float(np.asarray(p)), shape_of("bernoulli", size), name)
    return drawn


@explained
def multinomial(
    p: npt.ArrayLike, num_samples: int, replacement: bool = False, *, rng: Generator | None = None
) -> npt.NDArray[np.int64]:
    """Indices drawn with probability proportional to ``p``.

    Parameters
    ----------
    p : array_like, shape (n,) or (rows, n)
        Weights of at least 0; a row need not sum to 1. Anything but float64 counts as float32.
    num_samples : int
        Indices per row.
    replacement : bool
        Whether an index may be drawn more than once.
    rng : Generator, optional
        The generator to draw from; the default one if None.

    Returns
    -------
    ndarray of int64, shape (num_samples,) or (rows, num_samples)
        Equal to ``torch.multinomial(p, num_samples, replacement)``.

    Raises
    ------
    TypeError
        If ``num_samples`` is not an integer.
    ValueError
        If ``p`` has another number of axes, a row has a negative or infinite weight or a sum of 0, or
        there are fewer weights above 0 than samples without replacement.

    Examples
    --------
    >>> import qkv
    >>> qkv.random.multinomial([0.0, 3.0, 0.0], 2, replacement=True).tolist()
    [1, 1]
    """
    weights = floats("multinomial", "p", p)
    if weights.ndim not in (1, 2):
        raise ValueError(
            f"multinomial: p must be (n,) or (rows, n) because a row holds weights; got p {weights.shape}"
        )
    count = integer_of("multinomial", "num_samples", num_samples)
    drawn: npt.NDArray[np.int64] = generator_of("multinomial", rng)._multinomial(
        weights, count, bool(replacement)
    )
    return drawn
