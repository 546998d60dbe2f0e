"""Activations and losses as modules."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from . import functional as F
from ._losses import reduction_of
from ._module import Module


class _Activation(Module):
    """Calls a function of `nn.functional` with the arguments that it was made with."""

    _function: Any = None
    _arguments: tuple[str, ...] = ()  # of the function, in order
    _defaults: tuple[Any, ...] = ()
    _hidden: tuple[str, ...] = ("inplace",)  # shown only where they are not the default

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        if len(args) > len(self._arguments):
            raise TypeError(f"{type(self).__name__} takes {len(self._arguments)} arguments; got {len(args)}")
        values = dict(zip(self._arguments, self._defaults, strict=True))
        values |= dict(zip(self._arguments, args, strict=False))
        unknown = set(kwargs) - set(self._arguments)
        if unknown:
            raise TypeError(
                f"{type(self).__name__} got an unexpected keyword argument {sorted(unknown)[0]!r}"
            )
        for name, value in {**values, **kwargs}.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Any:
        """The same shape."""
        return type(self)._function(input, **{name: getattr(self, name) for name in self._arguments})

    def extra_repr(self) -> str:
        """The arguments."""
        shown = [
            f"{name}={getattr(self, name)!r}"
            for name, default in zip(self._arguments, self._defaults, strict=True)
            if name not in self._hidden or getattr(self, name) != default
        ]
        return ", ".join(shown)


def _activation(name: str, function: Any, **arguments: Any) -> type[_Activation]:
    members = {
        "_function": staticmethod(function),
        "_arguments": tuple(arguments),
        "_defaults": tuple(arguments.values()),
        "__doc__": f"`nn.functional.{getattr(function, '__name__', name.lower())}` as a module.",
        "__module__": __name__,
    }
    return type(name, (_Activation,), members)


ReLU = _activation("ReLU", F.relu, inplace=False)
ReLU6 = _activation("ReLU6", F.relu6, inplace=False)
Tanh = _activation("Tanh", F.tanh)
Sigmoid = _activation("Sigmoid", F.sigmoid)
GELU = _activation("GELU", F.gelu, approximate="none")
SiLU = _activation("SiLU", F.silu, inplace=False)
Mish = _activation("Mish", F.mish, inplace=False)
SELU = _activation("SELU", F.selu, inplace=False)
LeakyReLU = _activation("LeakyReLU", F.leaky_relu, negative_slope=0.01, inplace=False)
ELU = _activation("ELU", F.elu, alpha=1.0, inplace=False)
Softplus = _activation("Softplus", F.softplus, beta=1.0, threshold=20.0)
LogSigmoid = _activation("LogSigmoid", F.logsigmoid)
Hardtanh = _activation("Hardtanh", F.hardtanh, min_val=-1.0, max_val=1.0, inplace=False)
Softmax = _activation("Softmax", F.softmax, dim=None)
LogSoftmax = _activation("LogSoftmax", F.log_softmax, dim=None)
Softmin = _activation("Softmin", F.softmin, dim=None)
GLU = _activation("GLU", F.glu, dim=-1)


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class _WithWeight(_Loss):
    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_WithWeight):
    """`nn.functional.cross_entropy` as a module.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.CrossEntropyLoss()(torch.zeros(2, 3), torch.tensor([0, 2]))
    tensor(1.0986)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction_of(reduction, size_average, reduce))
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits ``(N, C, ...)`` and class numbers ``(N, ...)`` to a loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WithWeight):
    """`nn.functional.nll_loss` as a module."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, reduction_of(reduction, size_average, reduce))
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities ``(N, C, ...)`` and class numbers ``(N, ...)`` to a loss."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class MSELoss(_Loss):
    """`nn.functional.mse_loss` as a module."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction_of(reduction, size_average, reduce))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two Tensors of one shape to a loss."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(MSELoss):
    """`nn.functional.l1_loss` as a module."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two Tensors of one shape to a loss."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """`nn.functional.smooth_l1_loss` as a module."""

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(reduction_of(reduction, size_average, reduce))
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two Tensors of one shape to a loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """`nn.functional.huber_loss` as a module."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Two Tensors of one shape to a loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class BCELoss(_WithWeight):
    """`nn.functional.binary_cross_entropy` as a module."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, reduction_of(reduction, size_average, reduce))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Probabilities and targets of one shape to a loss."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WithWeight):
    """`nn.functional.binary_cross_entropy_with_logits` as a module."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, reduction_of(reduction, size_average, reduce))
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and targets of one shape to a loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """`nn.functional.kl_div` as a module."""

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
    ) -> None:
        super().__init__(reduction_of(reduction, size_average, reduce))
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities and probabilities of one shape to a loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CosineSimilarity(Module):
    """`nn.functional.cosine_similarity` as a module."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two Tensors of one shape to one without the axis."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
