"""Linear, Embedding, normalisation, dropout and what changes shapes."""

from __future__ import annotations

import math
from typing import Any

from .._creation import empty
from .._settings import constructor
from .._tensor import Tensor
from . import functional as F
from . import init
from ._activations import of_function
from ._module import Module
from .parameter import Parameter, UninitializedParameter


def spread(count: int) -> float:
    """Bound of the numbers that a map of `count` inputs is drawn from."""
    return 1 / math.sqrt(count) if count > 0 else 0.0


def draw_evenly(module: Module, count: int) -> None:
    """Draw all parameters from ``+-1 / sqrt(count)``."""
    for parameter in module.parameters():
        init.uniform_(parameter, -spread(count), spread(count))


def add_parameter(module: Module, name: str, *shape: int, wanted: Any = True, **kind: Any) -> None:
    """Give a module a parameter that is to be drawn, or None in its place."""
    module.register_parameter(name, Parameter(empty(*shape, **kind)) if wanted else None)


def settings_of(module: Any, *names: str) -> str:
    """Settings as a module's text has them; of a bias, whether there is one."""
    values = {name: getattr(module, name) for name in names}
    if "bias" in values:
        values["bias"] = values["bias"] is not None
    return ", ".join(f"{name}={value}" for name, value in values.items())


class Affine(Module):
    """Weights ``(outputs, inputs...)`` and a bias, drawn from ``+-1 / sqrt(n)`` for n inputs of an output."""

    weight: Tensor
    bias: Tensor | None

    def _add_weights(self, outputs: int, *inputs: int, bias: bool, **kind: Any) -> None:
        add_parameter(self, "weight", outputs, *inputs, **kind)
        add_parameter(self, "bias", outputs, wanted=bias, **kind)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = spread(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)


class Identity(Module):
    """Gives its input back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Itself."""
        return input


class Linear(Affine):
    """``x @ weight.T + bias``; weight and bias are drawn from ``+-1 / sqrt(in_features)``.

    Examples
    --------
    >>> from qkv.torch import nn
    >>> nn.Linear(2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._add_weights(out_features, in_features, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return settings_of(self, "in_features", "out_features", "bias")


class NonDynamicallyQuantizableLinear(Linear):
    """What `MultiheadAttention` calls its output layer."""


class LazyLinear(Linear):
    """A `Linear` whose input size is that of its first input, when its weights are drawn.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> _ = layer(torch.ones(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        Module.__init__(self)
        self.in_features, self.out_features = 0, out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.register_parameter("bias", UninitializedParameter(dtype=dtype) if bias else None)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once the sizes are known."""
        if self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the input's size and become a `Linear`."""
        if isinstance(self.weight, UninitializedParameter):
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        self.in_features = self.weight.shape[1]
        self.__class__ = Linear  # type: ignore[assignment]

    def forward(self, input: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        self.initialize_parameters(input)
        return F.linear(input, self.weight, self.bias)


class Bilinear(Affine):
    """``x1 weight[k] x2 + bias[k]``."""

    __init__ = constructor("in1_features, in2_features, out_features, bias=True, device=None, dtype=None")

    def _configure(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool, **kind: Any
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self._add_weights(out_features, in1_features, in2_features, bias=bias, **kind)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        draw_evenly(self, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Two inputs to one output."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return settings_of(self, "in1_features", "in2_features", "out_features", "bias")


class Embedding(Module):
    """A table of vectors, drawn from the normal distribution.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Embedding(5, 3)(torch.tensor([[0, 4]])).shape
    torch.Size([1, 2, 3])
    """

    __init__ = constructor(
        "num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, "
        "scale_grad_by_freq=False, sparse=False, _weight=None, _freeze=False, device=None, dtype=None"
    )

    def _configure(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        device: Any,
        dtype: Any,
        **rest: Any,
    ) -> None:
        super().__init__()
        F._check_embedding(rest["max_norm"], rest["scale_grad_by_freq"], rest["sparse"])
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise AssertionError("Padding_idx must be within num_embeddings")
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % num_embeddings
        drawn = rest["_weight"] is None
        table = empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if drawn else rest["_weight"]
        if tuple(table.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(table, not rest["_freeze"])
        if drawn:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew; the row of the padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table of vectors that exist."""
        rules = (max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(*embeddings.shape, padding_idx, *rules, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        """``(...)`` to ``(..., embedding_dim)``."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class _Norm(Module):
    """Over the last axes, with learned weights."""

    weight: Tensor | None
    bias: Tensor | None

    def _configure(
        self, normalized_shape: Any, eps: Any, elementwise_affine: bool, bias: bool = False, **kind: Any
    ) -> None:
        super().__init__()
        single = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if single else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        add_parameter(self, "weight", *self.normalized_shape, wanted=elementwise_affine, **kind)
        add_parameter(self, "bias", *self.normalized_shape, wanted=elementwise_affine and bias, **kind)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(_Norm):
    """Shifted and scaled to mean 0 and variance 1 over the last axes, then by learned weights."""

    __init__ = constructor(
        "normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None"
    )

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.normalized_shape}, {settings_of(self, 'eps', 'elementwise_affine', 'bias')}"


class RMSNorm(_Norm):
    """Divided by the root of the mean square over the last axes, times learned weights."""

    __init__ = constructor("normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None")

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.normalized_shape}, {settings_of(self, 'eps', 'elementwise_affine')}"


class Dropout(of_function("Dropout", F.dropout)):  # type: ignore[misc]
    """Zeros with probability p in training, the rest divided by ``1 - p``."""

    _hidden = ()

    def _configure(self, **settings: Any) -> None:
        F._check_probability(settings["p"])
        super()._configure(**settings)


def flatten(input: Tensor, start_dim: int = 1, end_dim: int = -1) -> Any:
    """Axes ``start_dim`` to ``end_dim`` as one."""
    return input.flatten(start_dim, end_dim)


Flatten = of_function("Flatten", flatten, module=__name__)


class Unflatten(Module):
    """One axis as several."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Any:
        """More axes."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The arguments."""
        return settings_of(self, "dim", "unflattened_size")
