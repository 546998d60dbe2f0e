"""Losses; classes stand on the last axis, whatever the other axes are."""

from __future__ import annotations

from typing import Any, Literal

from . import _core

__all__ = ["cross_entropy", "mse", "nll_loss"]

Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Any:
    """``-(1 - s) w[t] log p[t] - s/V sum_c w[c] log p[c]``, ``p = softmax(logits)``, for each target ``t``.

    Parameters
    ----------
    logits : array_like or Tensor
        ``(..., V)``. PyTorch wants the classes on axis 1; here they stand on the last.
    targets : array_like of int
        ``(...)``: class numbers ``0..V - 1``, or ``ignore_index``.
    weight : array_like, optional
        ``(V,)``: a factor ``w`` per class, ones unless given. It gets no gradient.
    ignore_index : int
        Targets of this number give loss 0 and do not count in the mean.
    label_smoothing : float
        ``s``, the share of the target that is spread over all classes, ``0..1``.
    reduction : "mean", "sum" or "none"
        The mean divides by the sum of ``w[t]``.

    Returns
    -------
    ndarray or Tensor
        ``()``, for "none" ``(...)``; differentiable. With every target ignored the mean is 0 (PyTorch: NaN).

    Raises
    ------
    ValueError
        If a shape does not fit, a target is no class, or an option is out of its range.
    TypeError
        If ``targets`` are not integers.

    Examples
    --------
    >>> loss = qkv.losses.cross_entropy([[0.0, 0.0], [0.0, 0.0]], [1, -100])
    >>> round(float(loss), 4)
    0.6931

    References
    ----------
    Szegedy et al., "Rethinking the Inception architecture for computer vision", 2016 (label smoothing).
    """
    return _core.cross_entropy(logits, targets, weight, ignore_index, label_smoothing, reduction)


def nll_loss(
    log_probs: Any,
    targets: Any,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Any:
    """``-w[t] log p[t]`` for each target ``t``: :func:`cross_entropy` behind a :func:`qkv.log_softmax`.

    Parameters
    ----------
    log_probs : array_like or Tensor
        ``(..., V)``.
    targets : array_like of int
        ``(...)``: class numbers ``0..V - 1``, or ``ignore_index``.
    weight : array_like, optional
        ``(V,)``: a factor ``w`` per class. It gets no gradient.
    ignore_index : int
        Targets of this number give loss 0 and do not count in the mean.
    reduction : "mean", "sum" or "none"
        The mean divides by the sum of ``w[t]``.

    Returns
    -------
    ndarray or Tensor
        ``()``, for "none" ``(...)``; differentiable. With every target ignored the mean is 0 (PyTorch: NaN).

    Raises
    ------
    ValueError
        If a shape does not fit, a target is no class, or ``reduction`` is unknown.
    TypeError
        If ``targets`` are not integers.

    Examples
    --------
    >>> float(qkv.losses.nll_loss([[-1.0, -2.0]], [1]))
    2.0
    """
    return _core.nll_loss(log_probs, targets, weight, ignore_index, reduction)


def mse(predictions: Any, targets: Any, *, reduction: Reduction = "mean") -> Any:
    """``(predictions - targets)^2``.

    Parameters
    ----------
    predictions, targets : array_like or Tensor
        Of the same shape; nothing is broadcast.
    reduction : "mean", "sum" or "none"
        The mean of nothing is 0.

    Returns
    -------
    ndarray or Tensor
        ``()``, for "none" the shape of the inputs; differentiable in both.

    Raises
    ------
    ValueError
        If the shapes differ, or ``reduction`` is unknown.

    Examples
    --------
    >>> float(qkv.losses.mse([1.0, 2.0], [1.0, 4.0]))
    2.0
    """
    return _core.mse(predictions, targets, reduction)
