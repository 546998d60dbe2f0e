"""Losses; classes are on the last axis, with any other axes. Only weights are broadcast."""

from __future__ import annotations

from typing import Literal

from . import _core
from ._public import explained, publish
from ._types import Numbers, Result

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber",
    "kl_div",
    "l1",
    "mse",
    "nll_loss",
]

Reduction = Literal["mean", "sum", "none"]


@explained
def cross_entropy(
    logits: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Result:
    """``-(1 - s) w[t] log p[t] - s/V sum_c w[c] log p[c]``, ``p = softmax(logits)``, for each target ``t``.

    Parameters
    ----------
    logits : array_like or Tensor
        ``(..., V)``. PyTorch wants the classes on axis 1; here they are on the last.
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


@explained
def nll_loss(
    log_probs: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Result:
    """``-w[t] log p[t]`` for each target ``t``: :func:`cross_entropy` after a :func:`qkv.log_softmax`.

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


@explained
def mse(predictions: Numbers, targets: Numbers, *, reduction: Reduction = "mean") -> Result:
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


@explained
def l1(predictions: Numbers, targets: Numbers, *, reduction: Reduction = "mean") -> Result:
    """``|predictions - targets|``; the derivative at 0 is 0.

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
    >>> float(qkv.losses.l1([1.0, 2.0], [1.0, 4.0]))
    1.0
    """
    return _core.l1(predictions, targets, reduction)


@explained
def huber(
    predictions: Numbers, targets: Numbers, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Result:
    """``d^2 / 2`` of the difference ``d`` within ``delta``, ``delta (|d| - delta / 2)`` beyond.

    Parameters
    ----------
    predictions, targets : array_like or Tensor
        Of the same shape; nothing is broadcast.
    delta : float
        Where the square ends. PyTorch's smooth L1 loss is this one divided by ``delta``.
    reduction : "mean", "sum" or "none"
        The mean of nothing is 0.

    Returns
    -------
    ndarray or Tensor
        ``()``, for "none" the shape of the inputs; differentiable in both.

    Raises
    ------
    ValueError
        If the shapes differ, ``delta`` is not positive, or ``reduction`` is unknown.

    Examples
    --------
    >>> qkv.losses.huber([0.0, 0.0], [0.5, 3.0], reduction="none")
    array([0.125, 2.5  ], dtype=float32)

    References
    ----------
    Huber, "Robust estimation of a location parameter", 1964.
    """
    return _core.huber(predictions, targets, delta, reduction)


@explained
def binary_cross_entropy_with_logits(
    logits: Numbers,
    targets: Numbers,
    *,
    weight: Numbers | None = None,
    pos_weight: Numbers | None = None,
    reduction: Reduction = "mean",
) -> Result:
    """``w (-p t log sigmoid(x) - (1 - t) log sigmoid(-x))`` for each logit ``x`` and target ``t``.

    Parameters
    ----------
    logits : array_like or Tensor
        Any shape.
    targets : array_like or Tensor
        In the same shape: probabilities, most often 0 or 1.
    weight : array_like, optional
        A factor ``w`` per loss; broadcasts to ``logits``.
    pos_weight : array_like, optional
        A factor ``p`` for what the targets count, above 1 where these are rare; broadcasts to ``logits``.
    reduction : "mean", "sum" or "none"
        The mean divides by the number of losses; that of nothing is 0.

    Returns
    -------
    ndarray or Tensor
        ``()``, for "none" the shape of the inputs; differentiable in ``logits`` and ``targets``, without loss of digits
        for logits of any size.

    Raises
    ------
    ValueError
        If the shapes differ, or ``reduction`` is unknown.

    Examples
    --------
    >>> qkv.losses.binary_cross_entropy_with_logits([0.0, 30.0], [1.0, 0.0], reduction="none")
    array([ 0.6931472, 30.       ], dtype=float32)
    """
    return _core.binary_cross_entropy_with_logits(logits, targets, weight, pos_weight, reduction)


@explained
def kl_div(
    log_probs: Numbers,
    targets: Numbers,
    *,
    log_targets: bool = False,
    reduction: Literal["mean", "batchmean", "sum", "none"] = "mean",
) -> Result:
    """``t (log t - log p)``: the Kullback-Leibler divergence of distributions ``t`` from ``p``, summed over classes.

    Parameters
    ----------
    log_probs : array_like or Tensor
        ``log p``, of any shape, as :func:`qkv.log_softmax` gives them.
    targets : array_like or Tensor
        ``t``, or ``log t`` with ``log_targets=True``, in the same shape. Where ``t`` is 0 the loss is 0.
    log_targets : bool
        The targets are logarithms, too.
    reduction : "mean", "batchmean", "sum" or "none"
        As in PyTorch, "mean" divides by the number of all entries; the divergence of whole distributions is
        "batchmean", which divides by the size of the first axis.

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
    >>> p, t = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    >>> round(float(qkv.losses.kl_div(np.log(p), t, reduction="batchmean")), 4)
    0.6931

    References
    ----------
    Kullback, Leibler, "On information and sufficiency", 1951.
    """
    return _core.kl_div(log_probs, targets, log_targets, reduction)


publish(__name__)
