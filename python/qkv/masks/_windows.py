"""Masks of distances: which keys a query sees around itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._formulas import Formula
from .._public import explained
from ._checks import check

MaskMod = Callable[..., Any]


@explained
def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """``kv_idx <= q_idx``: hide the future.

    Parameters
    ----------
    b, h, q_idx, kv_idx : int
        What :func:`qkv.scaled_dot_product_attention` calls a mask_mod with.

    Returns
    -------
    bool

    References
    ----------
    Vaswani et al., Attention Is All You Need, 2017.

    Examples
    --------
    >>> q = k = v = qkv.randn(1, 4, 6, 8)
    >>> qkv.scaled_dot_product_attention(q, k, v, mask_mod=qkv.masks.formulas.causal).shape
    (1, 4, 6, 8)
    """
    return q_idx >= kv_idx


@explained
def sliding_window(left: int, right: int = 0) -> MaskMod:
    """``q_idx - left <= kv_idx <= q_idx + right``.

    Parameters
    ----------
    left, right : int
        Keys before and after the query's own position; -1 is unlimited.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If a number is below -1.

    References
    ----------
    Beltagy, Peters, Cohan, Longformer: The Long-Document Transformer, 2020. Jiang et al., Mistral 7B, 2023.

    Examples
    --------
    >>> mask = qkv.masks.formulas.sliding_window(2)
    >>> [mask(0, 0, 5, k) for k in range(8)]
    [False, False, False, True, True, True, False, False]
    """
    check("sliding_window", -1, left=left, right=right)

    return Formula(_sliding_window, left, right)


def _sliding_window(left: int, right: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    allowed: Any = True
    if left >= 0:
        allowed = q_idx - kv_idx <= left
    if right >= 0:
        allowed = (kv_idx - q_idx <= right) & allowed
    return allowed


@explained
def dilated(window: int, step: int) -> MaskMod:
    """``|q_idx - kv_idx| <= window`` and a multiple of ``step``: a window with gaps.

    Parameters
    ----------
    window : int
        Farthest distance.
    step : int
        Distance from one key to the next.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If `window` is below 0 or `step` below 1.

    References
    ----------
    Beltagy, Peters, Cohan, Longformer: The Long-Document Transformer, 2020.

    Examples
    --------
    >>> mask = qkv.masks.formulas.dilated(4, 2)
    >>> [k for k in range(12) if mask(0, 0, 5, k)]
    [1, 3, 5, 7, 9]
    """
    check("dilated", 0, window=window)
    check("dilated", 1, step=step)

    return Formula(_dilated, window, step)


def _dilated(window: int, step: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (abs(q_idx - kv_idx) <= window) & ((q_idx - kv_idx) % step == 0)


@explained
def strided(step: int) -> MaskMod:
    """Show the ``step`` newest positions and every ``step``-th before them: causal and sparse.

    Parameters
    ----------
    step : int
        About the square root of the length for the least work.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If `step` is below 1.

    References
    ----------
    Child, Gray, Radford, Sutskever, Generating Long Sequences with Sparse Transformers, 2019.

    Examples
    --------
    >>> mask = qkv.masks.formulas.strided(3)
    >>> [k for k in range(12) if mask(0, 0, 10, k)]
    [1, 4, 7, 8, 9, 10]
    """
    check("strided", 1, step=step)

    return Formula(_strided, step)


def _strided(step: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (q_idx >= kv_idx) & ((q_idx - kv_idx < step) | ((q_idx - kv_idx) % step == 0))


@explained
def global_window(window: int, count: int) -> MaskMod:
    """``|q_idx - kv_idx| <= window``, and the first ``count`` tokens see all and are seen by all.

    Parameters
    ----------
    window : int
        Keys on either side.
    count : int
        Number of global tokens, at the beginning.

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If a number is below 0.

    References
    ----------
    Beltagy, Peters, Cohan, Longformer, 2020. Zaheer et al., Big Bird: Transformers for Longer Sequences, 2020.

    Examples
    --------
    >>> mask = qkv.masks.formulas.global_window(1, 2)
    >>> [k for k in range(8) if mask(0, 0, 5, k)]
    [0, 1, 4, 5, 6]
    """
    check("global_window", 0, window=window, count=count)

    return Formula(_global_window, window, count)


def _global_window(window: int, count: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (abs(q_idx - kv_idx) <= window) | (q_idx < count) | (kv_idx < count)


@explained
def neighbours(height: int, width: int, radius: int) -> MaskMod:
    """Show each pixel the ``(2 radius + 1)^2`` pixels nearest to it, in a picture whose rows follow each other.

    At the border the square of keys is moved inwards, so that every pixel has as many.

    Parameters
    ----------
    height, width : int
        Of the picture; position ``y * width + x`` is the pixel in row ``y`` and column ``x``.
    radius : int

    Returns
    -------
    callable
        A formula for ``mask_mod=``.

    Raises
    ------
    ValueError
        If a size is below 1 or `radius` below 0.

    References
    ----------
    Hassani, Walton, Li, Li, Shi, Neighborhood Attention Transformer, 2023.

    Examples
    --------
    >>> mask = qkv.masks.formulas.neighbours(3, 4, 1)
    >>> [k for k in range(12) if mask(0, 0, 0, k)]
    [0, 1, 2, 4, 5, 6, 8, 9, 10]
    """
    check("neighbours", 1, height=height, width=width)
    check("neighbours", 0, radius=radius)

    return Formula(_neighbours, height, width, radius)


def _neighbours(height: int, width: int, radius: int, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    row = np.clip(np.clip(q_idx // width, radius, None), None, height - 1 - radius)
    column = np.clip(np.clip(q_idx % width, radius, None), None, width - 1 - radius)
    return (abs(row - kv_idx // width) <= radius) & (abs(column - kv_idx % width) <= radius)
