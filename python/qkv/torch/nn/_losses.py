"""Losses as functions: what PyTorch's ``nn.functional`` computes, with the classes on the second axis."""

from __future__ import annotations

import functools
import math

import numpy as np

from ... import _core
from ..._errors import shown
from .._elementwise import as_numbers
from .._reductions import mean
from .._reductions import sum as _sum
from .._settings import arguments
from .._spelling import answer
from .._tensor import Core, Tensor, _core_shape, wrap

_REDUCTION = "size_average=None, reduce=None, reduction='mean'"


def reduction_of(reduction: str, size_average, reduce) -> str:
    """The reduction that PyTorch's old arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def _loss(text: str, op: str | None = None, single: str = "", share: bool | None = None):
    """Decorate a loss by its signature: a function of the reduction, too, unless a label says that it gives all.

    `share` tells what the weights of an argument ``weight`` are: whether the mean is over their sum; none without it.
    """

    def decorate(f):
        @arguments(text)
        @functools.wraps(f)
        def call(reduction: str, size_average=None, reduce=None, **given):
            reduction = reduction_of(reduction, size_average, reduce)
            if op is None:
                return f(reduction=reduction, **given)
            weight = given.pop("weight") if share is not None else None
            loss = f(**given)
            if weight is None:
                return reduced(loss, reduction, f.__name__, op, single)
            _check_same_shape(f.__name__, loss, weight, "weight")
            if not share:
                return reduced(loss * weight, reduction, f.__name__, op)
            total = reduced(loss * weight, reduction.replace("mean", "sum"), f.__name__, "MulBackward0")
            return total / weight.sum() if reduction == "mean" else total

        return call

    return decorate


def reduced(loss, reduction: str, operation: str, op: str = "", single: str = "") -> Tensor:
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


def _classes_last(t):
    """``(N, C, d1, ...)`` as ``(N, d1, ..., C)``."""
    rank = len(_core_shape(t))
    if rank < 3:
        return t
    return Core.transpose(t, (0, *range(2, rank), 1))


@_loss(
    "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', "
    "label_smoothing=0.0"
)
def cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing):
    """``-log softmax(input)[target]``; targets are class numbers, or probabilities in the shape of the input.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """
    if target.dtype.kind == 2:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    options = (weight, ignore_index, label_smoothing, reduction)
    result = _by_class("cross_entropy", input, target, ignore_index, reduction, *options)
    if label_smoothing and result._op:
        result._op = "AddBackward0"
    return result


def _by_class(name: str, input, target, ignored: int, reduction: str, *options) -> Tensor:
    """A loss of the core's, of classes on the second axis; PyTorch's mean over nothing is NaN, the core's is 0."""
    ids, rank = as_numbers(target), len(_core_shape(input))
    if rank > 1 and _core_shape(target) != (shape := (*_core_shape(input)[:1], *_core_shape(input)[2:])):
        where = f"the classes of input {tuple(input.shape)} stand on the second axis"
        raise ValueError(f"{name}: target must be {shape} because {where}; got target {tuple(target.shape)}")
    loss = answer(name, getattr(_core, name), _classes_last(input), ids, *options)
    if reduction == "mean" and bool((ids == ignored).all()):
        loss = Core.__mul__(loss, math.nan)
    return wrap(loss, "NllLoss2DBackward0" if rank > 2 else "NllLossBackward0")


def _soft_cross_entropy(input, target, weight, reduction: str, smoothing: float) -> Tensor:
    shape = _core_shape(input)
    classes = max(shape[min(1, len(shape) - 1)], 1)
    wanted = target * (1 - smoothing) + smoothing / classes if smoothing else target
    parts = _core.log_softmax(_classes_last(input), len(shape) - 1, 1.0) * _classes_last(wanted)
    losses = -(parts if weight is None else parts * weight).sum(-1)
    if reduction == "mean":
        return wrap(losses.sum() / (math.prod(shape) / classes), "DivBackward1")  # NaN of nothing
    return reduced(losses, reduction, "cross_entropy", "NegBackward0")


@_loss("input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean'")
def nll_loss(input, target, weight, ignore_index, reduction):
    """``-input[target]`` of log-probabilities."""
    return _by_class("nll_loss", input, target, ignore_index, reduction, weight, ignore_index, reduction)


@_loss(f"input, target, {_REDUCTION}, weight=None", "MseLossBackward0", share=True)
def mse_loss(input, target):
    """``(input - target)^2``, times a weight for each."""
    difference = input - target
    return difference * difference


@_loss(f"input, target, {_REDUCTION}, weight=None", "", "AbsBackward0", share=True)
def l1_loss(input, target):
    """``|input - target|``, times a weight for each."""
    return abs(input - target)


@_loss(f"input, target, {_REDUCTION}, beta=1.0")
def smooth_l1_loss(input, target, reduction, beta):
    """Quadratic up to ``beta``, then ``|input - target| - beta / 2``."""
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    loss = reduced(_core.huber_of(input - target, beta), reduction, "smooth_l1_loss") / beta
    return wrap(loss, "SmoothL1LossBackward0")


@_loss("input, target, reduction='mean', delta=1.0, weight=None", "HuberLossBackward0", share=False)
def huber_loss(input, target, delta):
    """Quadratic up to ``delta``, then ``delta (|input - target| - delta / 2)``, times a weight for each."""
    return _core.huber_of(input - target, delta)


def _check_same_shape(operation: str, input, target, name: str = "target") -> None:
    """Refuse what would broadcast: (N, 1) and (N,) would make N losses of each number."""
    if _core_shape(input) != _core_shape(target):
        raise ValueError(
            f"{operation}: {name} must have the shape of input, {tuple(input.shape)}; got {tuple(target.shape)}"
        )


@_loss(f"input, target, weight=None, {_REDUCTION}", "BinaryCrossEntropyBackward0")
def binary_cross_entropy(input, target, weight):
    """``-(target log input + (1 - target) log(1 - input))``, logarithms at least -100."""
    _check_same_shape("binary_cross_entropy", input, target)
    log = lambda x: _core.clip(_core.log(x), -100.0, None)  # noqa: E731
    loss = (target - 1) * log(1 - input) - target * log(input)
    return loss if weight is None else loss * weight


@_loss(f"input, target, weight=None, {_REDUCTION}, pos_weight=None", "BinaryCrossEntropyWithLogitsBackward0")
def binary_cross_entropy_with_logits(input, target, weight, pos_weight):
    """`binary_cross_entropy` of the sigmoid, safe for numbers of any size."""
    _check_same_shape("binary_cross_entropy_with_logits", input, target)
    return _core.binary_cross_entropy_with_logits(input, target, weight, pos_weight, "none")


@_loss(f"input, target, {_REDUCTION}, log_target=False")
def kl_div(input, target, reduction, log_target):
    """``target (log target - input)`` of log-probabilities; 0 where the target is 0."""
    if log_target:
        loss = _core.exp(target) * (target - input)
    else:
        loss = target * (_core.log(_core.where(target == 0, 1.0, target)) - input)
    if reduction == "batchmean":
        return _sum(wrap(loss)) / max(_core_shape(input)[0], 1)
    return reduced(loss, reduction, "kl_div", "", "MulBackward0" if log_target else "SubBackward0")


def cosine_similarity(x1, x2, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along an axis."""
    shape = np.broadcast_shapes(tuple(_core_shape(x1)), tuple(_core_shape(x2)))
    x1, x2 = (_core.expanded(x, shape) for x in (x1, x2))

    def unit(x):
        size = _core.sqrt(_core.clip(Core.sum(Core.__mul__(x, x), dim, True), eps * eps, None))
        return Core.__truediv__(x, size)

    return wrap(Core.sum(Core.__mul__(unit(x1), unit(x2)), dim), "SumBackward1")
