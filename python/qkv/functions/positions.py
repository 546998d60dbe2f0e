"""Tables of positions: sinusoidal, rotary, ALiBi. Computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .. import _core
from .._public import explained
from .._types import Numbers, Result
from .._words.errors import shown
from .grad_mode import refuse_gradients

__all__ = ["alibi_slopes", "apply_rotary", "relative_rotation", "rotary_tables", "sinusoidal_positions"]


@explained
def sinusoidal_positions(
    max_len: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float32"
) -> NDArray[Any]:
    """Sinusoidal positions ``P[i, 2j] = sin(i w_j), P[i, 2j+1] = cos(i w_j)``, ``w_j = base^(-2j/dim)``.

    Parameters
    ----------
    max_len : int
        Number of positions, the rows.
    dim : int
        Number of features, the columns; an odd one ends with a sine.
    base : float, default 10000.0
        Wave lengths grow from 2 pi towards ``2 pi * base`` positions.
    dtype : dtype, default "float32"

    Returns
    -------
    ndarray, (max_len, dim)

    Raises
    ------
    ValueError
        If a size is negative or `base` not above 0.

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017.

    Examples
    --------
    >>> qkv.sinusoidal_positions(2, 2).round(3)
    array([[0.   , 1.   ],
           [0.841, 0.54 ]], dtype=float32)
    """
    return _rounded(_core.sinusoidal_positions(max_len, dim, base), dtype, "sinusoidal_positions")


@explained
def relative_rotation(
    offset: int, dim: int, base: float = 10000.0, dtype: DTypeLike = "float32"
) -> NDArray[Any]:
    """Matrix ``R`` that moves every sinusoidal position by `offset`: ``P[i + offset] = R @ P[i]``.

    Parameters
    ----------
    offset : int
        In positions; may be negative.
    dim : int
        Even.
    base : float, default 10000.0
    dtype : dtype, default "float32"

    Returns
    -------
    ndarray, (dim, dim)
        Blocks ``[[cos a, sin a], [-sin a, cos a]]`` with ``a = offset * w_j`` on the diagonal.

    Raises
    ------
    ValueError
        If `dim` is odd: the last sine would have no cosine to turn with.

    References
    ----------
    Vaswani et al., "Attention is all you need", 2017.

    Examples
    --------
    >>> P, R = qkv.sinusoidal_positions(9, 4), qkv.relative_rotation(5, 4)
    >>> bool(np.allclose(R @ P[3], P[8]))
    True
    """
    return _rounded(_core.relative_rotation(offset, dim, base), dtype, "relative_rotation")


@explained
def rotary_tables(
    positions: ArrayLike,
    dim: int,
    base: float = 10000.0,
    dtype: DTypeLike = "float32",
    *,
    scaling: Mapping[str, Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cosines and sines of the rotary angles ``positions * w_j`` with ``w_j = base^(-2j/dim)``.

    Parameters
    ----------
    positions : array_like, (L,)
        Numbers of the positions, often ``range(L)``.
    dim : int
        Number of features that rotate, R; even.
    base : float, default 10000.0
    dtype : dtype, default "float32"
    scaling : dict, optional
        How a model reads longer sequences than it was trained on, as Hugging Face's ``rope_scaling`` says it:
        ``rope_type`` (or ``type``) is ``"default"``, ``"linear"`` (``w_j / factor``), ``"dynamic"`` (a larger base once
        the largest position passes the length in training), ``"yarn"`` or ``"llama3"`` (slow frequencies are divided,
        fast ones stay, those between are blended; yarn also multiplies both tables); ``factor``;
        ``original_max_position_embeddings``, the length in training, which all but linear need; of yarn ``beta_fast
        beta_slow truncate attention_factor mscale mscale_all_dim``; of llama3 ``low_freq_factor high_freq_factor``.

    Returns
    -------
    cos, sin : ndarray, (L, dim / 2)

    Raises
    ------
    TypeError, ValueError
        If `dim` is odd, `base` not above 0, or `scaling` no such rule.

    References
    ----------
    Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021. Peng et al., "YaRN: efficient
    context window extension of large language models", 2023. Llama team, "The Llama 3 herd of models", 2024.

    Examples
    --------
    >>> cos, sin = qkv.rotary_tables([0, 1], 2)
    >>> cos.round(3).tolist(), sin[0].tolist()
    ([[1.0], [0.5400000214576721]], [0.0])
    """
    refuse_gradients("rotary_tables", positions=positions)
    numbers = _core.as_numpy(positions, "rotary_tables", "positions")
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"rotary_tables: positions must be numbers; got dtype {numbers.dtype}")
    if scaling is not None and not isinstance(scaling, Mapping):
        raise TypeError(f"rotary_tables: scaling must be a dict; got {shown(scaling)}")
    cos, sin = _core.rotary_tables(
        numbers.astype(np.float64), dim, base, None if scaling is None else dict(scaling)
    )
    return _rounded(cos, dtype, "rotary_tables"), _rounded(sin, dtype, "rotary_tables")


@explained
def apply_rotary(x: Numbers, cos: Numbers, sin: Numbers, *, interleaved: bool = False) -> Result:
    """Rotate pairs of features by their position's angle: ``(a, b)`` to ``(a cos - b sin, a sin + b cos)``.

    After that the product of a query and a key depends on their distance alone.

    Parameters
    ----------
    x : array_like or Tensor, (..., L, D)
        Queries or keys, per head.
    cos, sin : array_like or Tensor, (..., L, R/2)
        From `rotary_tables`; broadcast over leading axes. The first R features rotate, the others stay.
    interleaved : bool, default False
        False pairs feature i with ``i + R/2`` (the paper's code for GPT-NeoX and Llama), True 2i with
        ``2i + 1`` (the paper's formula, GPT-J).

    Returns
    -------
    ndarray or Tensor, (..., L, D)
        Differentiable with respect to `x`.

    Raises
    ------
    ValueError
        If the tables do not fit to `x`.

    References
    ----------
    Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.

    Examples
    --------
    >>> qkv.apply_rotary([[1.0, 0.0]], cos=[[0.6]], sin=[[0.8]])
    array([[0.6, 0.8]], dtype=float32)
    """
    rotated = _core.apply_rotary(x, cos, sin, interleaved)
    if any(isinstance(t, _core.Tensor) and _core.is_differentiable(t) for t in (cos, sin)):
        given = [t if isinstance(t, _core.Tensor) else _core.tensor(t) for t in (x, cos, sin)]
        x, cos, sin = (t.astype(rotated.dtype) for t in given)
        return _of_learned_angles(x, cos, sin, interleaved)
    return rotated


def _of_learned_angles(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    """Return what the kernel returns, whose angles are numbers, by operations that record them, too."""
    half = cos.shape[-1]
    pairs = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (slice(half), slice(half, 2 * half))
    )
    a, b = (x[..., pair] for pair in pairs)
    turned = _core.stack([a * cos - b * sin, a * sin + b * cos], -1 if interleaved else -2)
    return _core.concatenate([turned.reshape(*x.shape[:-1], 2 * half), x[..., 2 * half :]], -1)


@explained
def alibi_slopes(num_heads: int, dtype: DTypeLike = "float32") -> NDArray[Any]:
    """Slopes of ALiBi's penalty on distance: ``2^(-8h/H)`` for ``h = 1, ..., H`` where H is a power of two.

    For other H the slopes of the power of two below come first, then every second one of twice that power.

    Parameters
    ----------
    num_heads : int
        H, at least 1.
    dtype : dtype, default "float32"

    Returns
    -------
    ndarray, (num_heads,)
        For the argument ``alibi_slopes`` of `scaled_dot_product_attention`.

    Raises
    ------
    ValueError
        If there is no head.

    References
    ----------
    Press, Smith, Lewis, "Train short, test long", 2022.

    Examples
    --------
    >>> qkv.alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625], dtype=float32)
    """
    return _rounded(_core.alibi_slopes(num_heads), dtype, "alibi_slopes")


def _rounded(table: NDArray[np.float64], dtype: DTypeLike, operation: str) -> NDArray[Any]:
    wanted = np.dtype(dtype)
    if wanted.kind != "f" and wanted.name != "bfloat16":
        raise TypeError(
            f"{operation}: dtype must be floating because the table holds fractions; got {wanted}"
        )
    return table.astype(wanted, copy=False)
