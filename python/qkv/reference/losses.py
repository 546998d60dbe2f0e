"""Losses; the classes are on the last axis."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._public import explained
from .normalizers import log_softmax

Array = NDArray[np.float64]


@explained
def cross_entropy(
    logits: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """Compute ``-(1 - s) w_t log p_t - s/V sum_c w_c log p_c`` for each target ``t``.

    Parameters
    ----------
    logits : array, (..., V)
    targets : array of int, (...)
    weight : array, (V,), optional
        One factor per class.
    ignore_index : int
        Targets that count nothing.
    label_smoothing : float
        ``s``.
    reduction : "mean", "sum" or "none"
        The mean divides by the sum of ``w_t``; with every target ignored it is 0.

    Returns
    -------
    ndarray, () or (...) for "none"

    Raises
    ------
    ValueError
        If a target is no class, or `reduction` is unknown.

    Examples
    --------
    >>> print(cross_entropy([[0.0, 0.0]], [1]).round(4))
    0.6931
    """
    log_probs = log_softmax(logits)  # (..., V)
    V = log_probs.shape[-1]
    w = np.ones(V) if weight is None else np.asarray(weight, np.float64)
    kept, t = _check_targets(targets, ignore_index, V, "cross_entropy")
    loss = -(1 - label_smoothing) * w[t] * _pick(log_probs, t)  # (...)
    if label_smoothing:
        loss = loss - label_smoothing / V * (log_probs @ w)
    return _reduce(np.where(kept, loss, 0.0), np.where(kept, w[t], 0.0), reduction, "cross_entropy")


@explained
def nll_loss(
    log_probs: ArrayLike,
    targets: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    """Compute ``-w_t log p_t`` for each target ``t``.

    Parameters
    ----------
    log_probs : array, (..., V)
    targets : array of int, (...)
    weight, ignore_index, reduction
        As in `cross_entropy`.

    Returns
    -------
    ndarray, () or (...) for "none"

    Raises
    ------
    ValueError
        If a target is no class, or `reduction` is unknown.

    Examples
    --------
    >>> print(nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    log_probs = np.asarray(log_probs, np.float64)
    w = np.ones(log_probs.shape[-1]) if weight is None else np.asarray(weight, np.float64)
    kept, t = _check_targets(targets, ignore_index, log_probs.shape[-1], "nll_loss")
    loss = -w[t] * _pick(log_probs, t)
    return _reduce(np.where(kept, loss, 0.0), np.where(kept, w[t], 0.0), reduction, "nll_loss")


@explained
def mse(predictions: ArrayLike, targets: ArrayLike, *, reduction: str = "mean") -> Array:
    """Compute ``(predictions - targets)^2``.

    Parameters
    ----------
    predictions, targets : array, the same shape
    reduction : "mean", "sum" or "none"

    Returns
    -------
    ndarray, () or the inputs' shape for "none"

    Raises
    ------
    ValueError
        If the shapes differ, or `reduction` is unknown.

    Examples
    --------
    >>> print(mse([1.0, 2.0], [1.0, 4.0]))
    2.0
    """
    a, b = np.asarray(predictions, np.float64), np.asarray(targets, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"mse: targets must be {a.shape} to match predictions; got targets {b.shape}")
    return _reduce((a - b) ** 2, np.ones_like(a), reduction, "mse")


def _check_targets(
    targets: ArrayLike, ignore_index: int, V: int, operation: str
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Say which targets count, and give 0 for the others."""
    targets = np.asarray(targets)
    kept = targets != ignore_index
    t = np.where(kept, targets, 0).astype(np.int64)
    if ((t < 0) | (t >= V)).any():
        raise ValueError(
            f"{operation}: targets must be in 0..{V - 1} because these are the classes; got "
            f"{t.min()}..{t.max()}"
        )
    return kept, t


def _pick(log_probs: Array, t: NDArray[np.int64]) -> Array:
    return np.take_along_axis(log_probs, t[..., None], -1)[..., 0]


def _reduce(loss: Array, weight: Array, reduction: str, operation: str) -> Array:
    if reduction == "none":
        return loss
    if reduction == "sum":
        return np.asarray(loss.sum())
    if reduction == "mean":
        total = weight.sum()
        return np.asarray(loss.sum() / total if total else 0.0)
    raise ValueError(
        f"{operation}: reduction must be 'mean', 'sum' or 'none' because these are defined; got {reduction!r}"
    )
