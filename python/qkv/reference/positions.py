"""Positions: sinusoidal tables, rotary embedding, ALiBi slopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._public import explained


def _frequencies(dim: int, base: float) -> NDArray[np.float64]:
    """Return ``w_j = base^(-2j/dim)`` for each pair ``j`` of columns, (ceil(dim/2),)."""
    return np.asarray(base ** (-np.arange(0, dim, 2) / dim))


@explained
def sinusoidal_positions(
    max_len: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float64"
) -> NDArray[np.floating]:
    """Compute ``P[i, 2j] = sin(i w_j)`` and ``P[i, 2j+1] = cos(i w_j)`` with ``w_j = base^(-2j/dim)``.

    Parameters
    ----------
    max_len, dim : int
        An odd `dim` ends with a sine.
    base : float
    dtype : dtype
        The table is computed in float64 and rounded once.

    Returns
    -------
    ndarray, (max_len, dim)

    Examples
    --------
    >>> sinusoidal_positions(2, 2).round(3)
    array([[0.   , 1.   ],
           [0.841, 0.54 ]])

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017.
    """
    angles = np.arange(max_len)[:, None] * _frequencies(dim, base)  # (max_len, ceil(dim/2))
    table = np.empty((max_len, dim))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : dim // 2])
    return table.astype(dtype)


@explained
def relative_rotation(
    offset: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float64"
) -> NDArray[np.floating]:
    """Build the matrix ``R`` with ``P[i + offset] = R @ P[i]`` for every row ``i`` of the sinusoidal table.

    Parameters
    ----------
    offset, dim : int
    base : float
    dtype : dtype

    Returns
    -------
    ndarray, (dim, dim)
        Blocks ``[[cos, sin], [-sin, cos]]`` of the angle ``offset * w_j`` on the diagonal.

    Raises
    ------
    ValueError
        If `dim` is odd: the last sine has no cosine to turn with.

    Examples
    --------
    >>> P = sinusoidal_positions(9, 4)
    >>> bool(np.allclose(relative_rotation(5, 4) @ P[3], P[8]))
    True
    """
    if dim % 2:
        raise ValueError(
            f"relative_rotation: dim must be even because each sine turns with its cosine; got dim = {dim}"
        )
    R = np.zeros((dim, dim))
    for j, angle in enumerate(offset * _frequencies(dim, base)):
        c, s = np.cos(angle), np.sin(angle)
        R[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [[c, s], [-s, c]]
    return R.astype(dtype)


def _scaled_frequencies(
    w: Any, dim: int, base: float, longest: float, scaling: Mapping[str, Any]
) -> tuple[Any, float]:
    """Return the frequencies that a rule makes of `w`, and what multiplies cosines and sines."""
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor", 1.0)
    trained = scaling.get("original_max_position_embeddings", np.inf)
    turns = trained * w / (2 * np.pi)  # in the length of training
    if kind == "linear":
        return w / factor, 1.0
    if kind == "dynamic":
        longer = base * (factor * max(longest / trained, 1) - (factor - 1)) ** (dim / (dim - 2))
        return _frequencies(dim, longer), 1.0
    if kind == "llama3":
        low, high = scaling.get("low_freq_factor", 1.0), scaling.get("high_freq_factor", 4.0)
        share = np.clip((turns - low) / (high - low), 0, 1)
        return w * share + w / factor * (1 - share), 1.0
    if kind == "yarn":
        ends = [scaling.get("beta_fast", 32.0), scaling.get("beta_slow", 1.0)]
        low, high = (dim * np.log(trained / (beta * 2 * np.pi)) / (2 * np.log(base)) for beta in ends)
        if scaling.get("truncate", True):
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        share = 1 - np.clip((np.arange(len(w)) - low) / (high - low if high != low else 0.001), 0, 1)
        size = 0.1 * np.log(factor) + 1 if factor > 1 else 1.0
        return w * share + w / factor * (1 - share), scaling.get("attention_factor", size)
    return w, 1.0


@explained
def rotary_tables(
    positions: ArrayLike,
    dim: int,
    base: float = 10000.0,
    dtype: DTypeLike = "float64",
    *,
    scaling: Mapping[str, Any] | None = None,
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Compute the cosines and sines of ``positions * w_j`` with ``w_j = base^(-2j/dim)``.

    Parameters
    ----------
    positions : array, (L,)
    dim : int
        The number of features that rotate.
    base : float
    dtype : dtype
    scaling : dict, optional
        As Hugging Face's ``rope_scaling``: ``rope_type`` is linear, dynamic, yarn or llama3.

    Returns
    -------
    cos, sin : ndarray, (L, dim/2)

    Raises
    ------
    ValueError
        If `dim` is odd.

    Examples
    --------
    >>> cos, sin = rotary_tables([0, 1], 2)
    >>> cos.round(3).tolist(), sin.round(3).tolist()
    ([[1.0], [0.54]], [[0.0], [0.841]])
    """
    if dim % 2:
        raise ValueError(f"rotary_tables: dim must be even because features rotate in pairs; got dim = {dim}")
    p = np.asarray(positions, np.float64)
    w, size = _frequencies(dim, base), 1.0
    if scaling is not None and p.size:
        w, size = _scaled_frequencies(w, dim, base, p.max() + 1, scaling)
    angles = p[..., None] * w  # (L, dim/2)
    return (size * np.cos(angles)).astype(dtype), (size * np.sin(angles)).astype(dtype)


@explained
def apply_rotary(
    x: ArrayLike, cos: ArrayLike, sin: ArrayLike, *, interleaved: bool = False
) -> NDArray[np.float64]:
    """Rotate pairs of features: ``(a, b)`` to ``(a cos - b sin, a sin + b cos)``.

    Parameters
    ----------
    x : array, (..., L, D)
    cos, sin : array, (..., L, R/2), broadcast over leading axes
        The first R features rotate, the rest stay.
    interleaved : bool
        True pairs features 2i and 2i + 1, False i and i + R/2.

    Returns
    -------
    ndarray, (..., L, D)

    Examples
    --------
    >>> apply_rotary([[1.0, 0.0]], [[0.6]], [[0.8]])
    array([[0.6, 0.8]])

    References
    ----------
    Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.
    """
    cos, sin = np.asarray(cos, np.float64), np.asarray(sin, np.float64)
    half = cos.shape[-1]
    y = np.array(x, np.float64)
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    a, b = y[..., first].copy(), y[..., second].copy()  # (..., L, R/2)
    y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
    return y


@explained
def alibi_slopes(num_heads: int, dtype: DTypeLike = "float64") -> NDArray[np.floating]:
    """Return the slope of each head's penalty on distance: ``2^(-8h/H)`` for ``h = 1..H``, H a power of two.

    For other H the slopes of the power of two below come first, then every second one of twice that power.

    Parameters
    ----------
    num_heads : int
    dtype : dtype

    Returns
    -------
    ndarray, (num_heads,)

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])

    References
    ----------
    Press, Smith, Lewis, "Train short, test long", 2022.
    """
    power = 1 << (num_heads.bit_length() - 1)  # largest power of two within num_heads
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    finer = 2.0 ** (-8 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.concatenate([slopes, finer[::2][: num_heads - power]]).astype(dtype)
