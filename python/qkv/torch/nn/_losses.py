"""Losses as functions: what PyTorch's ``nn.functional`` computes, with the classes on the second axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import _core
from .._elementwise import as_numbers
from .._reductions import mean
from .._reductions import sum as _sum
from .._tensor import Core, Tensor, _core_shape, wrap


def _check_reduction(operation: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{operation}: reduction must be 'mean', 'sum' or 'none'; got {reduction!r}")


def reduction_of(reduction: str, size_average: Any, reduce: Any) -> str:
    """The reduction that PyTorch's old arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def reduced(loss: Any, reduction: str, operation: str, op: str = "") -> Tensor:
    """Mean, sum or all of the losses; `op` is PyTorch's name where it is not that of the mean or the sum."""
    _check_reduction(operation, reduction)
    t = wrap(loss, op)
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


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
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
    reduction = reduction_of(reduction, size_average, reduce)
    _check_reduction("cross_entropy", reduction)
    if target.dtype.kind == 2:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    _check_targets("cross_entropy", input, target, ignore_index)
    loss = _core.cross_entropy(
        _classes_last(input), as_numbers(target), weight, ignore_index, label_smoothing, reduction
    )
    result = _or_nan(loss, target, ignore_index, reduction, len(_core_shape(input)))
    if label_smoothing and result._op:
        result._op = "AddBackward0"
    return result


def _or_nan(loss: Any, target: Tensor, ignore_index: int, reduction: str, rank: int) -> Tensor:
    """PyTorch's mean over nothing is NaN, qkv's is 0."""
    if reduction == "mean" and bool((as_numbers(target) == ignore_index).all()):
        loss = Core.__mul__(loss, math.nan)
    return wrap(loss, "NllLoss2DBackward0" if rank > 2 else "NllLossBackward0")


def _check_targets(operation: str, input: Tensor, target: Tensor, ignore_index: int) -> None:
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


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    classes = _core_shape(input)[1 if len(_core_shape(input)) > 1 else 0]
    wanted = target * (1 - smoothing) + smoothing / classes if smoothing else target
    logs = _core.log_softmax(_classes_last(input), len(_core_shape(input)) - 1, 1.0)
    parts = Core.__mul__(logs, _classes_last(wanted))
    if weight is not None:
        parts = Core.__mul__(parts, weight)
    losses = Core.__neg__(Core.sum(parts, -1))
    count = max(int(np.prod(_core_shape(losses))), 1)
    if reduction == "none":
        return wrap(losses, "NegBackward0")
    total = wrap(Core.sum(losses), "NegBackward0")
    return total if reduction == "sum" else wrap(Core.__truediv__(total, float(count)), "DivBackward1")


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``-input[target]`` of log-probabilities."""
    reduction = reduction_of(reduction, size_average, reduce)
    _check_reduction("nll_loss", reduction)
    _check_targets("nll_loss", input, target, ignore_index)
    loss = _core.nll_loss(_classes_last(input), as_numbers(target), weight, ignore_index, reduction)
    return _or_nan(loss, target, ignore_index, reduction, len(_core_shape(input)))


def _weighted(loss: Any, input: Tensor, weight: Tensor, reduction: str, operation: str) -> Tensor:
    """Losses times weights, whose mean is over the sum of the weights."""
    _check_same_shape(operation, input, weight, "weight")
    total = reduced(
        Core.__mul__(loss, weight), "sum" if reduction == "mean" else reduction, operation, "MulBackward0"
    )
    return total / weight.sum() if reduction == "mean" else total  # type: ignore[no-any-return]


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """``(input - target)^2``, times a weight for each."""
    reduction = reduction_of(reduction, size_average, reduce)
    difference = Core.__sub__(input, target)
    loss = Core.__mul__(difference, difference)
    if weight is not None:
        return _weighted(loss, input, weight, reduction, "mse_loss")
    return reduced(loss, reduction, "mse_loss", "MseLossBackward0")


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """``|input - target|``, times a weight for each."""
    reduction = reduction_of(reduction, size_average, reduce)
    loss = wrap(Core.__abs__(Core.__sub__(input, target)), "AbsBackward0")
    if weight is not None:
        return _weighted(loss, input, weight, reduction, "l1_loss")
    return reduced(loss, reduction, "l1_loss") if reduction != "none" else loss


def _quadratic_near_zero(input: Tensor, target: Tensor, bound: float, scale: float) -> Any:
    """``d^2 / 2`` up to the bound and ``bound (|d| - bound / 2)`` beyond it, divided by `scale`."""
    size = Core.__abs__(Core.__sub__(input, target))
    square = Core.__mul__(Core.__mul__(size, size), 0.5 / scale)
    straight = Core.__mul__(Core.__sub__(size, 0.5 * bound), bound / scale)
    return _core.where(Core.__lt__(size, bound), square, straight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic up to ``beta``, then ``|input - target| - beta / 2``."""
    reduction = reduction_of(reduction, size_average, reduce)
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return reduced(
        _quadratic_near_zero(input, target, beta, beta), reduction, "smooth_l1_loss", "SmoothL1LossBackward0"
    )


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """Quadratic up to ``delta``, then ``delta (|input - target| - delta / 2)``, times a weight for each."""
    loss = _quadratic_near_zero(input, target, delta, 1.0)
    if weight is not None:
        _check_same_shape("huber_loss", input, weight, "weight")
        loss = Core.__mul__(loss, weight)
    return reduced(loss, reduction, "huber_loss", "HuberLossBackward0")


def _check_same_shape(operation: str, input: Tensor, target: Tensor, name: str = "target") -> None:
    """Refuse what would broadcast: (N, 1) and (N,) would make N losses of each number."""
    if _core_shape(input) != _core_shape(target):
        raise ValueError(
            f"{operation}: {name} must have the shape of input, {tuple(input.shape)}; got {tuple(target.shape)}"
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(target log input + (1 - target) log(1 - input))``, logarithms at least -100."""
    reduction = reduction_of(reduction, size_average, reduce)
    _check_same_shape("binary_cross_entropy", input, target)
    log = lambda x: _core.clip(_core.log(x), -100.0, None)  # noqa: E731
    one = Core.__mul__(Core.__sub__(target, 1.0), log(Core.__rsub__(input, 1.0)))
    loss = Core.__sub__(one, Core.__mul__(target, log(input)))
    if weight is not None:
        loss = Core.__mul__(loss, weight)
    return reduced(loss, reduction, "binary_cross_entropy", "BinaryCrossEntropyBackward0")


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid, safe for numbers of any size."""
    reduction = reduction_of(reduction, size_average, reduce)
    _check_same_shape("binary_cross_entropy_with_logits", input, target)
    negative_log = _core.softplus(Core.__neg__(input), 1.0)  # of the sigmoid
    factor: Any = 1.0
    if pos_weight is not None:
        factor = Core.__add__(Core.__mul__(Core.__sub__(pos_weight, 1.0), target), 1.0)
    loss = Core.__add__(Core.__mul__(Core.__rsub__(target, 1.0), input), Core.__mul__(negative_log, factor))
    if weight is not None:
        loss = Core.__mul__(loss, weight)
    op = "BinaryCrossEntropyWithLogitsBackward0"
    return reduced(loss, reduction, "binary_cross_entropy_with_logits", op)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target (log target - input)`` of log-probabilities; 0 where the target is 0."""
    reduction = reduction_of(reduction, size_average, reduce)
    if log_target:
        loss = wrap(Core.__mul__(_core.exp(target), Core.__sub__(target, input)), "MulBackward0")
    else:
        none = Core.__eq__(target, 0.0)
        logs = _core.log(_core.where(none, 1.0, target))
        loss = wrap(Core.__mul__(target, Core.__sub__(logs, input)), "SubBackward0")
    if reduction == "batchmean":
        return _sum(loss) / max(_core_shape(input)[0], 1)
    return reduced(loss, reduction, "kl_div") if reduction != "none" else loss


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along an axis."""
    shape = np.broadcast_shapes(tuple(_core_shape(x1)), tuple(_core_shape(x2)))
    x1, x2 = (_core.expanded(x, shape) for x in (x1, x2))
    sizes = [
        _core.sqrt(_core.clip(Core.sum(Core.__mul__(x, x), dim, True), eps * eps, None)) for x in (x1, x2)
    ]
    parts = Core.__mul__(Core.__truediv__(x1, sizes[0]), Core.__truediv__(x2, sizes[1]))
    return wrap(Core.sum(parts, dim), "SumBackward1")
