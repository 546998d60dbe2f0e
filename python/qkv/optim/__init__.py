"""Optimizers, clipping of gradients, and schedules of the learning rate."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from .. import _core
from .._core import Tensor
from .._public import explained, publish
from .optimizers import Optimizer
from .parameter_groups import ParameterGroup, Reader, number, tensors_of, truth, two_numbers
from .plateau import ReduceLROnPlateau
from .schedules import ConstantSchedule, CosineSchedule, LinearSchedule, NoamSchedule, Schedule

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


class SGD(Optimizer):
    """Gradient descent: ``v = momentum v + g``, ``w -= lr v``, with ``g = grad + weight_decay w``.

    Parameters
    ----------
    params : iterable of Tensor, of (name, Tensor) or of dict
        Usually ``module.parameters()``. Those without a gradient are skipped by a step. A dict is a group with options
        of its own: its Tensors as ``"params"``, and those options in which it differs from the ones below.
    lr : float
        Learning rate, at least 0; assignable afterwards.
    momentum : float
        Share of the last step that is kept; the first step is the gradient itself, as in PyTorch.
    weight_decay : float
        Added to the gradient as ``weight_decay w``.
    nesterov : bool
        ``w -= lr (g + momentum v)`` instead.

    Raises
    ------
    ValueError
        If a number is out of its range, no parameter is given or one is given twice.
    TypeError
        If params holds anything but floating Tensors, or a group has an unknown option.

    Examples
    --------
    >>> w = qkv.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = qkv.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward(); optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]

    References
    ----------
    Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep learning", 2013.
    """

    _name = "SGD"
    _readers: ClassVar[dict[str, Reader]] = {
        "lr": number,
        "weight_decay": number,
        "momentum": number,
        "nesterov": truth,
    }
    _remembers = ("momentum_buffer",)

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self._begin(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        super()._check(options)
        momentum = options["momentum"]
        if not momentum >= 0:
            raise ValueError(
                "SGD: momentum must be at least 0 because it is the share of the last step that is kept; got momentum "
                f"= {momentum:g}"
            )
        if options["nesterov"] and momentum == 0:
            raise ValueError(
                "SGD: momentum must be above 0 because nesterov looks ahead along it; got momentum = 0"
            )


class Adam(Optimizer):
    """Adam: ``w -= lr m^ / (sqrt(v^) + eps)`` with the bias-corrected running averages of the gradient and its square.

    Parameters
    ----------
    params : iterable of Tensor, of (name, Tensor) or of dict
        Usually ``module.parameters()``. Those without a gradient are skipped by a step. A dict is a group with options
        of its own: its Tensors as ``"params"``, and those options in which it differs from the ones below.
    lr : float
        Learning rate, at least 0; assignable afterwards.
    betas : (float, float)
        How much of the two averages a step keeps.
    eps : float
        Added to the root.
    weight_decay : float
        Added to the gradient as ``weight_decay w``; `AdamW` decouples it.

    Raises
    ------
    ValueError
        If a number is out of its range, no parameter is given or one is given twice.
    TypeError
        If params holds anything but floating Tensors, or a group has an unknown option.

    Examples
    --------
    >>> w = qkv.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = qkv.optim.Adam([w], lr=0.5)
    >>> (w * w).sum().backward(); optimizer.step()
    >>> w.tolist()
    [0.5, 1.5]

    References
    ----------
    Kingma, Ba, "Adam: a method for stochastic optimization", 2015.
    """

    _name = "Adam"
    _readers: ClassVar[dict[str, Reader]] = {
        "lr": number,
        "weight_decay": number,
        "betas": two_numbers,
        "eps": number,
    }
    _remembers = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self._begin(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        super()._check(options)
        if not all(0 <= beta < 1 for beta in options["betas"]):
            first, second = options["betas"]
            raise ValueError(
                f"{cls._name}: betas must be at least 0 and below 1 because they weigh averages; got betas = "
                f"({first:g}, {second:g})"
            )
        if not options["eps"] >= 0:
            raise ValueError(
                f"{cls._name}: eps must be at least 0 because it keeps a divisor away from 0; got eps = "
                f"{options['eps']:g}"
            )


class AdamW(Adam):
    """Adam with decoupled weight decay: ``w -= lr weight_decay w`` first, then Adam's step without decay.

    Parameters
    ----------
    params, lr, betas, eps
        As in `Adam`.
    weight_decay : float
        Shrinks the parameters by ``lr weight_decay`` each step, with any gradients.

    Raises
    ------
    ValueError, TypeError
        As in `Adam`.

    Examples
    --------
    >>> w = qkv.tensor([1.0], requires_grad=True)
    >>> optimizer = qkv.optim.AdamW([w], lr=0.5, weight_decay=0.2)
    >>> (0.0 * w).sum().backward(); optimizer.step()
    >>> round(w.item(), 4)
    0.9

    Matrices decay, biases and norms do not:

    >>> layer = qkv.nn.TransformerEncoderLayer(8, 2, 16)
    >>> matrices = [p for p in layer.parameters() if p.ndim > 1]
    >>> rest = [p for p in layer.parameters() if p.ndim == 1]
    >>> groups = [{"params": matrices}, {"params": rest, "weight_decay": 0.0}]
    >>> optimizer = qkv.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)

    References
    ----------
    Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
    """

    _name, _decoupled = "AdamW", True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        self._begin(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


@explained
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

    Warns
    -----
    UserWarning
        If ``params`` is an iterator that is exhausted.

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
    tensors = [params] if isinstance(params, Tensor) else tensors_of("clip_grad_norm", params)[0]
    if not tensors and isinstance(params, Iterator):
        empty = "clip_grad_norm: params is an iterator without Tensors, so nothing is clipped; was it read before?"
        warnings.warn(empty, UserWarning, stacklevel=2)
    return _core.clip_grad_norm(tensors, number("clip_grad_norm", "max_norm", max_norm), False)


publish(__name__)
