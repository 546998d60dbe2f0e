"""Losses as functions: what PyTorch's ``nn.functional`` computes, with the classes on the second axis."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _core
from ..._errors import shown
from .._elementwise import as_numbers
from .._reductions import mean
from .._reductions import sum as _sum
from .._tensor import Core, Tensor, _core_shape, wrap


def reduction_of(reduction: str, size_average: Any, reduce: Any) -> str:
    """The reduction that PyTorch's old arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def _with_old_arguments(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a loss with a `reduction` take ``size_average`` and ``reduce``, too, in the places where PyTorch has them."""
    parameters = list(inspect.signature(f).parameters.values())
    names = [p.name for p in parameters]
    first = names.index("ignore_index" if "ignore_index" in names else "reduction")
    for name, place in (("reduce", names.index("reduction")), ("size_average", first)):
        parameters.insert(
            place, inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        )
    signature = inspect.Signature(parameters)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) > first or "size_average" in kwargs or "reduce" in kwargs:
            given = signature.bind(*args, **kwargs).arguments
            old = given.pop("size_average", None), given.pop("reduce", None)
            args, kwargs = (), {**given, "reduction": reduction_of(given.get("reduction", "mean"), *old)}
        return f(*args, **kwargs)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def reduced(loss: Any, reduction: str, operation: str, op: str = "", single: str = "") -> Tensor:
    """Mean, sum or all of the losses; `op` is PyTorch's name where it is not that of the mean or the sum, or of all."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{operation}: reduction must be 'mean', 'sum' or 'none'; got {shown(reduction)}")
    t = wrap(loss, single or op)
    if reduction == "none":
        return t
    t = mean(t) if reduction == "mean" else _sum(t)
    if op and t._op:
        t._op = op
    return t


def _classes_last(t: Tensor) -> Any:
    """``(N, C, d1, ...)`` as ``(N, d1, ..., C)``."""
    rank = len(_core_shape(t))
    if rank < 3:
        return t
    return Core.transpose(t, (0, *range(2, rank), 1))


@_with_old_arguments
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log softmax(input)[target]``; targets are class numbers, or probabilities in the shape of the input.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """
    if target.dtype.kind == 2:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    ids = _checked_targets("cross_entropy", input, target, ignore_index)
    loss = _core.cross_entropy(_classes_last(input), ids, weight, ignore_index, label_smoothing, reduction)
    result = _or_nan(loss, ids, ignore_index, reduction, len(_core_shape(input)))
    if label_smoothing and result._op:
        result._op = "AddBackward0"
    return result


def _or_nan(loss: Any, ids: np.ndarray, ignore_index: int, reduction: str, rank: int) -> Tensor:
    """PyTorch's mean over nothing is NaN, qkv's is 0."""
    if reduction == "mean" and bool((ids == ignore_index).all()):
        loss = Core.__mul__(loss, math.nan)
    return wrap(loss, "NllLoss2DBackward0" if rank > 2 else "NllLossBackward0")


def _checked_targets(operation: str, input: Tensor, target: Tensor, ignore_index: int) -> np.ndarray:
    shape, rank = tuple(_core_shape(input)), len(_core_shape(input))
    classes = shape[1] if rank > 1 else shape[0]
    expected = (shape[0], *shape[2:]) if rank > 1 else ()
    if tuple(_core_shape(target)) != expected:
        raise ValueError(
            f"{operation}: target must be {expected} because input is {shape} with the classes on "
            f"{'the second' if rank > 1 else 'its only'} axis; got target {tuple(target.shape)}"
        )
    ids = as_numbers(target)
    known = ids[ids != ignore_index]
    if known.size and not (known.min() >= 0 and known.max() < classes):
        raise IndexError(
            f"{operation}: target must be from 0 to {classes - 1}; got numbers from {known.min()} to {known.max()}"
        )
    return ids


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    shape = _core_shape(input)
    wanted = target * (1 - smoothing) + smoothing / shape[min(1, len(shape) - 1)] if smoothing else target
    parts = _core.log_softmax(_classes_last(input), len(shape) - 1, 1.0) * _classes_last(wanted)
    losses = -(parts if weight is None else parts * weight).sum(-1)
    if reduction == "mean":
        count = max(math.prod(_core_shape(losses)), 1)
        return wrap(losses.sum() / float(count), "DivBackward1")
    return reduced(losses, reduction, "cross_entropy", "NegBackward0")


@_with_old_arguments
def nll_loss(
    input: Tensor, target: Tensor, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """``-input[target]`` of log-probabilities."""
    ids = _checked_targets("nll_loss", input, target, ignore_index)
    loss = _core.nll_loss(_classes_last(input), ids, weight, ignore_index, reduction)
    return _or_nan(loss, ids, ignore_index, reduction, len(_core_shape(input)))


def _weighted(
    loss: Any, input: Tensor, weight: Tensor | None, reduction: str, operation: str, op: str, single: str = ""
) -> Tensor:
    """Losses times weights, whose mean is over the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction, operation, op, single)
    _check_same_shape(operation, input, weight, "weight")
    part = "sum" if reduction == "mean" else reduction
    total = reduced(loss * weight, part, operation, "MulBackward0")
    return total / weight.sum() if reduction == "mean" else total  # type: ignore[no-any-return]


@_with_old_arguments
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Any = None) -> Tensor:
    """``(input - target)^2``, times a weight for each."""
    difference = input - target
    return _weighted(difference * difference, input, weight, reduction, "mse_loss", "MseLossBackward0")


@_with_old_arguments
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Any = None) -> Tensor:
    """``|input - target|``, times a weight for each."""
    return _weighted(abs(input - target), input, weight, reduction, "l1_loss", "", "AbsBackward0")


def _quadratic_near_zero(input: Tensor, target: Tensor, bound: float, scale: float) -> Any:
    """``d^2 / 2`` up to the bound and ``bound (|d| - bound / 2)`` beyond it, divided by `scale`."""
    size = abs(input - target)
    return _core.where(size < bound, size * size * (0.5 / scale), (size - 0.5 * bound) * (bound / scale))


@_with_old_arguments
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Quadratic up to ``beta``, then ``|input - target| - beta / 2``."""
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    loss = _quadratic_near_zero(input, target, beta, beta)
    return reduced(loss, reduction, "smooth_l1_loss", "SmoothL1LossBackward0")


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """Quadratic up to ``delta``, then ``delta (|input - target| - delta / 2)``, times a weight for each."""
    loss = _quadratic_near_zero(input, target, delta, 1.0)
    if weight is not None:
        _check_same_shape("huber_loss", input, weight, "weight")
        loss = loss * weight
    return reduced(loss, reduction, "huber_loss", "HuberLossBackward0")


def _check_same_shape(operation: str, input: Tensor, target: Tensor, name: str = "target") -> None:
    """Refuse what would broadcast: (N, 1) and (N,) would make N losses of each number."""
    if _core_shape(input) != _core_shape(target):
        raise ValueError(
            f"{operation}: {name} must have the shape of input, {tuple(input.shape)}; got {tuple(target.shape)}"
        )


@_with_old_arguments
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """``-(target log input + (1 - target) log(1 - input))``, logarithms at least -100."""
    _check_same_shape("binary_cross_entropy", input, target)
    log = lambda x: _core.clip(_core.log(x), -100.0, None)  # noqa: E731
    loss = (target - 1) * log(1 - input) - target * log(input)
    loss = loss if weight is None else loss * weight
    return reduced(loss, reduction, "binary_cross_entropy", "BinaryCrossEntropyBackward0")


@_with_old_arguments
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid, safe for numbers of any size."""
    _check_same_shape("binary_cross_entropy_with_logits", input, target)
    loss = _core.binary_cross_entropy_with_logits(input, target, weight, pos_weight, "none")
    op = "BinaryCrossEntropyWithLogitsBackward0"
    return reduced(loss, reduction, "binary_cross_entropy_with_logits", op)


@_with_old_arguments
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target (log target - input)`` of log-probabilities; 0 where the target is 0."""
    if log_target:
        loss = _core.exp(target) * (target - input)
    else:
        loss = target * (_core.log(_core.where(target == 0, 1.0, target)) - input)
    if reduction == "batchmean":
        return _sum(wrap(loss)) / max(_core_shape(input)[0], 1)
    return reduced(loss, reduction, "kl_div", "", "MulBackward0" if log_target else "SubBackward0")


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along an axis."""
    shape = np.broadcast_shapes(tuple(_core_shape(x1)), tuple(_core_shape(x2)))
    x1, x2 = (_core.expanded(x, shape) for x in (x1, x2))
    sizes = [
        _core.sqrt(_core.clip(Core.sum(Core.__mul__(x, x), dim, True), eps * eps, None)) for x in (x1, x2)
    ]
    parts = Core.__mul__(Core.__truediv__(x1, sizes[0]), Core.__truediv__(x2, sizes[1]))
    return wrap(Core.sum(parts, dim), "SumBackward1")
