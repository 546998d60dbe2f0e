"""Softmax and its relatives, plain and masked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .rows import allowed_by_lengths, entmax, split_mask, weights_per_row


@explained
def softmax(x: ArrayLike, axis: int = -1, temperature: float = 1.0) -> NDArray[np.float64]:
    """Compute ``exp(x / temperature)``, divided by its sum along `axis`.

    Parameters
    ----------
    x : array, any shape
    axis : int
        The axis whose entries sum to 1 in the result.
    temperature : float
        Below 1 sharpens the distribution, above 1 flattens it.

    Returns
    -------
    ndarray, the shape of `x`
        A row of ``-inf`` becomes NaN: this is the plain formula. `masked_softmax` gives zeros there.

    Examples
    --------
    >>> softmax([0.0, np.log(3.0)])
    array([0.25, 0.75])
    """
    x = np.asarray(x, np.float64) / temperature
    with np.errstate(invalid="ignore"):  # -inf - -inf
        e = np.exp(x - x.max(axis, keepdims=True))
        return np.asarray(e / e.sum(axis, keepdims=True))


@explained
def sparsemax(x: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Compute ``max(x - tau, 0)``, whose sum along `axis` is 1.

    Parameters
    ----------
    x : array, any shape
    axis : int

    Returns
    -------
    ndarray, the shape of `x`

    Examples
    --------
    >>> sparsemax([1.0, 0.5, -1.0]).round(12)
    array([0.75, 0.25, 0.  ])
    """
    return entmax(x, 2.0, axis)


@explained
def log_softmax(x: ArrayLike, axis: int = -1, temperature: float = 1.0) -> NDArray[np.float64]:
    """Compute ``x / temperature - logsumexp(x / temperature)`` along `axis`.

    Parameters
    ----------
    x : array, any shape
    axis : int
    temperature : float

    Returns
    -------
    ndarray, the shape of `x`

    Examples
    --------
    >>> np.exp(log_softmax([0.0, np.log(3.0)])).round(12)
    array([0.25, 0.75])
    """
    x = np.asarray(x, np.float64) / temperature
    with np.errstate(invalid="ignore"):  # -inf - -inf
        return np.asarray(x - logsumexp(x, axis=axis, keepdims=True))


@explained
def logsumexp(
    x: ArrayLike, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> NDArray[np.float64]:
    """Compute ``log(sum(exp(x)))`` over `axis` (None: over everything) without overflow.

    Parameters
    ----------
    x : array, any shape
    axis : int, tuple of int, or None
    keepdims : bool

    Returns
    -------
    ndarray
        Entries of ``-inf`` count nothing; where there are only such, the result is ``-inf``.

    Examples
    --------
    >>> print(logsumexp([1000.0, 1000.0]).round(4))
    1000.6931
    """
    x = np.asarray(x, np.float64)
    shift = x.max(axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(divide="ignore", over="ignore"):  # log(0) = -inf, exp(inf) = inf
        result = np.log(np.exp(x - shift).sum(axis, keepdims=True)) + shift
    return np.asarray(result if keepdims else result.squeeze(axis))


@explained
def masked_softmax(
    scores: ArrayLike,
    valid_lens: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    masked_value: float | None = None,
) -> NDArray[np.float64]:
    """Compute the softmax of each row of `scores` over its allowed entries; the others get weight 0.

    Parameters
    ----------
    scores : array, (Lq, Lk), (B, Lq, Lk) or (B, H, Lq, Lk)
    valid_lens : array of int, (B,) or (B, Lq); an int for scores (Lq, Lk)
        How many leading keys each query may see.
    mask : array, broadcast to the shape of `scores`
        Boolean (True = allowed) or float (added to the scores, ``-inf`` excludes).
    masked_value : float, optional
        Replaces excluded scores instead of skipping them.

    Returns
    -------
    ndarray, the shape of `scores`
        A row without an allowed entry gives zeros (without `masked_value`).

    Raises
    ------
    TypeError
        If `mask` is an integer array.

    Examples
    --------
    >>> masked_softmax([[0.0, 0.0, 7.0]], 2)
    array([[0.5, 0.5, 0. ]])
    """
    scores = np.asarray(scores, np.float64)  # (..., Lq, Lk)
    allowed, bias = split_mask(mask, scores.shape, "masked_softmax")
    allowed &= allowed_by_lengths(valid_lens, scores.shape)
    weights, _, _ = weights_per_row(scores + bias, allowed, masked_value=masked_value)
    return weights


@explained
def softmax_jacobian(x: ArrayLike) -> NDArray[np.float64]:
    """Compute ``diag(p) - p p^T`` for ``p = softmax(x)`` on the last axis.

    Parameters
    ----------
    x : array, (..., n)

    Returns
    -------
    ndarray, (..., n, n)
        Entry ``(i, j)`` is the slope of ``p[i]`` with respect to ``x[j]``.

    Examples
    --------
    >>> softmax_jacobian([0.0, 0.0])
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    p = softmax(x)  # (..., n)
    diagonal = p[..., :, None] * np.eye(p.shape[-1])  # (..., n, n)
    return np.asarray(diagonal - p[..., :, None] * p[..., None, :])
