"""Optimizers, clipping of gradients, and schedules of the learning rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import _core
from ._core import SGD, Adam, AdamW, Optimizer, ParameterGroup
from ._plateau import ReduceLROnPlateau
from ._public import publish
from ._schedules import ConstantSchedule, CosineSchedule, LinearSchedule, NoamSchedule, Schedule

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "ConstantSchedule",
    "CosineSchedule",
    "LinearSchedule",
    "NoamSchedule",
    "Optimizer",
    "ParameterGroup",
    "ReduceLROnPlateau",
    "Schedule",
    "clip_grad_norm",
]


def clip_grad_norm(params: Iterable[Any] | Any, max_norm: float) -> float:
    """Multiply all gradients by ``max_norm / (norm + 1e-6)`` if that is below 1.

    Parameters
    ----------
    params : iterable of Tensor, or a Tensor
        Those without a gradient do not count.
    max_norm : float
        At least 0; infinity changes nothing.

    Returns
    -------
    float
        ``norm``: the root of the sum of squares of all gradients together, before clipping.

    Raises
    ------
    ValueError
        If ``max_norm`` is negative.

    Examples
    --------
    >>> w = qkv.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> qkv.optim.clip_grad_norm([w], 1.0), w.grad.numpy().round(4).tolist()
    (10.0, [0.6000000238418579, 0.800000011920929])

    References
    ----------
    Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", 2013.
    """
    return float(_core.clip_grad_norm(params, max_norm))


publish(__name__)
