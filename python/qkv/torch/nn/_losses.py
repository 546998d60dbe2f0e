"""Losses as functions: what PyTorch's ``nn.functional`` computes, with the classes on the second axis."""

from __future__ import annotations

import math
from typing import Any

from ... import _core
from ..._words.errors import shown
from .._arguments import floating, tensor
from .._dtypes import int64, uint8
from .._elementwise import as_numbers, cast
from .._reductions import mean
from .._reductions import sum as _sum
from .._spelling import answer
from .._tensor import Core, Tensor, _core_shape, wrap


def reduction_of(reduction: str, size_average, reduce) -> str:
    """The reduction that PyTorch's old arguments mean, where they are given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


def reduced(loss, reduction: str, operation: str, op: str = "", single: str = "") -> Tensor:
    """Mean, sum or all of the losses; `op` is PyTorch's name where it is not that of the mean or the sum, or of all."""
    if reduction.__class__ is not str or reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{operation}: reduction must be 'mean', 'sum' or 'none'; got {shown(reduction)}")
    t = wrap(loss, single or op)
    if reduction == "none":
        return t
    t = mean(t) if reduction == "mean" else _sum(t)
    if op and t._op:
        t._op = op
    return t


# Losses of classes.


def _classes_last(t):
    """``(N, C, d1, ...)`` as ``(N, d1, ..., C)``."""
    rank = len(_core_shape(t))
    if rank < 3:
        return t
    return Core.transpose(t, (0, *range(2, rank), 1))


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """``-log softmax(input)[target]``; targets are class numbers, or probabilities in the shape of the input.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if tensor("cross_entropy", "target", target).dtype.kind == 2:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    result = _by_class("cross_entropy", input, target, weight, ignore_index, reduction, label_smoothing)
    if label_smoothing and result._op:
        result._op = "AddBackward0"
    return result


def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"
) -> Tensor:
    """``-input[target]`` of log-probabilities."""
    reduction = reduction_of(reduction, size_average, reduce)
    return _by_class("nll_loss", input, target, weight, ignore_index, reduction)


def _check_scores(name: str, input, weight) -> None:
    """Scores of classes are floating numbers; their weights have the same dtype."""
    kind = floating(name, "input", input).dtype
    if not _core_shape(input):
        raise IndexError(f"{name}: input must have an axis of classes; got shape ()")
    if weight is not None and tensor(name, "weight", weight).dtype is not kind:
        raise RuntimeError(f"{name}: weight must have the dtype of input, {kind}; got {weight.dtype}")


def _by_class(name: str, input, target, weight, ignored, reduction: str, *smoothing) -> Tensor:
    """A loss of the core's, of classes on the second axis; PyTorch's mean over nothing is NaN, the core's is 0."""
    _check_scores(name, input, weight)
    if (kind := tensor(name, "target", target).dtype) is not int64 and kind is not uint8:
        raise RuntimeError(f"{name}: target must hold numbers of classes as int64 or uint8; got {kind}")
    ids, shape, rank = as_numbers(target), _core_shape(target), len(_core_shape(input))
    if rank > 1 and shape != (wanted := (*_core_shape(input)[:1], *_core_shape(input)[2:])):
        where = f"the classes of input {_core_shape(input)} are on the second axis"
        raise ValueError(f"{name}: target must be {wanted} because {where}; got target {shape}")
    options = (weight, ignored, *smoothing, reduction)
    loss = answer(name, getattr(_core, name), _classes_last(input), ids, *options)
    weight = options[0]
    nothing = (
        (ids == ignored)
        if weight is None
        else (ids == ignored) | (as_numbers(weight)[ids * (ids != ignored)] == 0)
    )
    if reduction == "mean" and bool(nothing.all()):
        loss = Core.__mul__(loss, math.nan)
    return wrap(loss, "NllLoss2DBackward0" if rank > 2 else "NllLossBackward0")


def _soft_cross_entropy(input, target, weight, ignored, reduction: str, smoothing: float) -> Tensor:
    _check_scores("cross_entropy", input, None)
    shape = _core_shape(input)
    if _core_shape(target) != shape:
        raise RuntimeError(
            "cross_entropy: target must hold numbers of classes as int64, or probabilities in the shape of input, "
            f"{shape}; got {_core_shape(target)} of {target.dtype}"
        )
    if ignored >= 0:
        raise RuntimeError(
            f"cross_entropy: ignore_index must be below 0 because target holds probabilities; got {ignored}"
        )
    if not 0 <= smoothing <= 1:
        raise RuntimeError(f"cross_entropy: label_smoothing must be from 0 to 1; got {smoothing}")
    classes = max(shape[min(1, len(shape) - 1)], 1)
    wanted = target * (1 - smoothing) + smoothing / classes if smoothing else target
    parts = _core.log_softmax(_classes_last(input), len(shape) - 1, 1.0) * _classes_last(wanted)
    if weight is not None:
        if _core_shape(tensor("cross_entropy", "weight", weight)) != (classes,):
            raise RuntimeError(
                f"cross_entropy: weight must be ({classes},), one of each class; got {_core_shape(weight)}"
            )
        parts = parts * weight
    losses = -parts.sum(-1)
    if reduction == "mean":
        return wrap(losses.sum() / (math.prod(shape) / classes), "DivBackward1")  # NaN of nothing
    return reduced(losses, reduction, "cross_entropy", "NegBackward0")


# Losses of differences.


def _difference(name: str, input, target) -> tuple[Any, Any]:
    """``input - target``, and its dtype; a warning where they broadcast, an error of whole numbers alone."""
    shape, other = (_core_shape(tensor(name, word, t)) for word, t in (("input", input), ("target", target)))
    if shape != other:
        _core.warn_caller(
            f"{name}: target has the shape {other} and input {shape}, so they broadcast and numbers meet that do "
            "not belong together; let both have one shape"
        )
    x, y, kind = _core.promoted(input, target)
    if kind.kind < 2:
        raise RuntimeError(
            f"{name}: input or target must hold floating numbers; got {input.dtype} and {target.dtype}"
        )
    return answer(name, Core.__sub__, x, y), kind


def _weighted(
    name: str, loss, input, weight, reduction: str, op: str, single: str = "", share: bool = False
) -> Tensor:
    """Reduced; with weights for each number, whose mean may be over their sum."""
    if weight is None:
        return reduced(loss, reduction, name, op, single)
    _check_same_shape(name, input, tensor(name, "weight", weight), "weight")
    if not share or reduction != "mean":
        return reduced(Core.__mul__(loss, weight), reduction, name, "MulBackward0" if share else op)
    return reduced(Core.__mul__(loss, weight), "sum", name, "MulBackward0") / weight.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None) -> Tensor:
    """``(input - target)^2``, times a weight for each."""
    reduction = reduction_of(reduction, size_average, reduce)
    difference, _ = _difference("mse_loss", input, target)
    squares = Core.__mul__(difference, difference)
    return _weighted("mse_loss", squares, input, weight, reduction, "MseLossBackward0", share=True)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None) -> Tensor:
    """``|input - target|``, times a weight for each."""
    reduction = reduction_of(reduction, size_average, reduce)
    difference, _ = _difference("l1_loss", input, target)
    if 0 in (input.dtype.kind, target.dtype.kind):
        raise RuntimeError("l1_loss: input and target must not be booleans because these have no differences")
    sizes = _core.abs(difference)
    return _weighted("l1_loss", sizes, input, weight, reduction, "", "AbsBackward0", share=True)


# Losses of probabilities.


def _check_same_shape(operation: str, input, target, name: str = "target") -> None:
    """Refuse what would broadcast: (N, 1) and (N,) would make N losses of each number."""
    if _core_shape(input) != _core_shape(target):
        raise ValueError(
            f"{operation}: {name} must have the shape of input, {_core_shape(input)}; got {_core_shape(target)}"
        )


def _check_weight(operation: str, name: str, weight, input) -> Any:
    """A Tensor that broadcasts to the shape of the input, in its dtype."""
    shape, given = _core_shape(input), _core_shape(tensor(operation, name, weight))
    fits = len(given) <= len(shape) and all(
        a in (1, b) for a, b in zip(given[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise RuntimeError(f"{operation}: {name} must broadcast to the shape of input, {shape}; got {given}")
    return cast(weight, input.dtype)


def _check_shares(operation: str, name: str, t) -> None:
    """Probabilities are from 0 to 1."""
    numbers = as_numbers(t)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() <= 1):
        raise RuntimeError(f"{operation}: {name} must hold probabilities from 0 to 1; got others, or NaN")


def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
) -> Tensor:
    """``-(target log input + (1 - target) log(1 - input))``, logarithms at least -100."""
    name = "binary_cross_entropy"
    kind = floating(name, "input", input).dtype
    if tensor(name, "target", target).dtype is not kind:
        raise RuntimeError(f"{name}: target must have the dtype of input, {kind}; got {target.dtype}")
    _check_same_shape(name, input, target)
    _check_shares(name, "input", input)
    _check_shares(name, "target", target)
    loss = _of_probabilities(input, target)
    if weight is not None:
        loss = loss * _check_weight(name, "weight", weight, input)
    return reduced(loss, reduction_of(reduction, size_average, reduce), name, "BinaryCrossEntropyBackward0")


def _of_probabilities(input, target):
    """The losses; where ``p (1 - p)`` is below 1e-12 their slope is ``1e12 (p - target)``, as PyTorch's."""
    corner = as_numbers(input)
    corner = corner * (1 - corner) < 1e-12
    if not corner.any():
        return (target - 1) * _core.log(1 - input) - target * _core.log(input)
    at, inside = input.detach(), _core.where(corner, 0.5, input)
    log = lambda x: _core.clip(_core.log(x), -100.0, None)  # noqa: E731
    there = (target - 1) * log(1 - at) - target * log(at) + (input - at) * ((at - target.detach()) * 1e12)
    return _core.where(corner, there, _of_probabilities(wrap(inside), target))


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
) -> Tensor:
    """`binary_cross_entropy` of the sigmoid, safe for numbers of any size."""
    name = "binary_cross_entropy_with_logits"
    _check_same_shape(name, floating(name, "input", input), floating(name, "target", target))
    weights = [
        one if one is None else _check_weight(name, word, one, input)
        for word, one in (("weight", weight), ("pos_weight", pos_weight))
    ]
    loss = answer(name, _core.binary_cross_entropy_with_logits, input, target, *weights, "none")
    loss = cast(loss, target.dtype)  # as PyTorch, where the input has another
    return reduced(
        loss, reduction_of(reduction, size_average, reduce), name, "BinaryCrossEntropyWithLogitsBackward0"
    )


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False) -> Tensor:
    """``target (log target - input)`` of log-probabilities; 0 where the target is 0."""
    floating("kl_div", "input", input), floating("kl_div", "target", target)
    if log_target:
        loss = _core.exp(target) * (target - input)
    else:
        loss = target * (_core.log(_core.where(target == 0, 1.0, target)) - input)
    reduction = reduction_of(reduction, size_average, reduce)
    if reduction == "batchmean":
        return _sum(wrap(loss)) / max((*_core_shape(input), 1)[0], 1)  # type: ignore[no-any-return]
    return reduced(loss, reduction, "kl_div", "", "MulBackward0" if log_target else "SubBackward0")
