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


def add_parameter(module: Module, name: str, *shape: int, wanted=True, **kind) -> None:
    """Add a parameter that is to be drawn to a module, or None in its place."""
    module.register_parameter(name, Parameter(empty(*shape, **kind)) if wanted else None)


class Affine(Module):
    """Weights ``(outputs, inputs...)`` and a bias, drawn from ``+-1 / sqrt(n)`` for n inputs of an output."""

    weight: Tensor
    bias: Tensor | None

    def _add_weights(self, outputs: int, *inputs: int, bias: bool, **kind) -> None:
        add_parameter(self, "weight", outputs, *inputs, **kind)
        add_parameter(self, "bias", outputs, wanted=bias, **kind)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = spread(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)


class Lazy(Affine):
    """Takes the size of its inputs from the first one, draws its weights then, and becomes what it stands for."""

    _becomes: Any
    _sizes: tuple[str, str]  # its attributes of inputs and outputs
    _axis = -1  # of the inputs

    def _add_weights(self, outputs: int, *inputs: int, bias: bool, **kind) -> None:
        self.weight = UninitializedParameter(**kind)
        self.register_parameter("bias", UninitializedParameter(**kind) if bias else None)

    def reset_parameters(self) -> None:
        """Draw weight and bias again, once the sizes are known."""
        if not isinstance(self.weight, UninitializedParameter):
            super().reset_parameters()

    def initialize_parameters(self, input) -> None:
        """Take the input's size and become the other class."""
        if isinstance(self.weight, UninitializedParameter):
            kernel = getattr(self, "kernel_size", ())
            shape = (getattr(self, self._sizes[1]), input.shape[self._axis], *kernel)
            self.weight.materialize(shape)
            if self.bias is not None:
                self.bias.materialize(shape[:1])
            self.reset_parameters()
        setattr(self, self._sizes[0], self.weight.shape[1])
        self.__class__ = self._becomes

    def forward(self, input) -> Tensor:
        """As that class."""
        self.initialize_parameters(input)
        return self.forward(input)


class Identity(Module):
    """Returns its input."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input):
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

    _shown = "in_features out_features bias"

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None) -> None:
        self._configure(in_features=in_features, out_features=out_features)
        self._add_weights(out_features, in_features, bias=bias, device=device, dtype=dtype)

    def forward(self, input) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        return F.linear(input, self.weight, self.bias)


class NonDynamicallyQuantizableLinear(Linear):
    """What `MultiheadAttention` calls its output layer."""


class LazyLinear(Lazy, Linear):
    """A `Linear` whose input size is that of its first input, when its weights are drawn.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> _ = layer(torch.ones(2, 5))
    >>> layer
    Linear(in_features=5, out_features=3, bias=True)
    """

    _becomes, _sizes = Linear, ("in_features", "out_features")

    def __init__(self, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(0, out_features, bias, device, dtype)


class Embedding(Module):
    """A table of vectors, drawn from the normal distribution.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Embedding(5, 3)(torch.tensor([[0, 4]])).shape
    torch.Size([1, 2, 3])
    """

    __init__ = constructor(
        "num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
        "sparse=False, _weight=None, _freeze=False, device=None, dtype=None"
    )

    _shown = "=num_embeddings =embedding_dim padding_idx?"

    def _configure(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, **rest) -> None:
        super()._configure(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        F._check_embedding(rest["max_norm"], rest["scale_grad_by_freq"], rest["sparse"])
        self.padding_idx = None if padding_idx is None else F._row_of_padding(padding_idx, num_embeddings)
        given = rest["_weight"]
        table = empty(num_embeddings, embedding_dim, **rest["kind"]) if given is None else given
        if tuple(table.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(table, not rest["_freeze"])
        if given is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table again; the row of the padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """A table of vectors that exist."""
        rules = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return cls(*embeddings.shape, *rules, _weight=embeddings, _freeze=freeze)

    def forward(self, input) -> Tensor:
        """``(...)`` to ``(..., embedding_dim)``."""
        return F.embedding(input, self.weight, self.padding_idx)


class _Norm(Module):
    """Over the last axes, with learned weights."""

    weight: Tensor | None
    bias: Tensor | None

    def _configure(self, normalized_shape, eps, elementwise_affine: bool, kind, bias: bool = False) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super()._configure(normalized_shape=shape, eps=eps, elementwise_affine=elementwise_affine)
        add_parameter(self, "weight", *shape, wanted=elementwise_affine, **kind)
        add_parameter(self, "bias", *shape, wanted=elementwise_affine and bias, **kind)
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
    _shown = "=normalized_shape eps elementwise_affine bias"

    def forward(self, input) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """Divided by the root of the mean square over the last axes, times learned weights."""

    __init__ = constructor("normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None")
    _shown = "=normalized_shape eps elementwise_affine"

    def forward(self, x) -> Tensor:
        """The same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class Dropout(of_function("Dropout", F.dropout)):  # type: ignore[misc]
    """Zeros with probability p in training, the rest divided by ``1 - p``."""

    _shown = "p inplace"

    def _configure(self, **settings) -> None:
        F._check_probability(settings["p"])
        super()._configure(**settings)


def flatten(input, start_dim: int = 1, end_dim: int = -1):
    """Axes ``start_dim`` to ``end_dim`` as one."""
    return input.flatten(start_dim, end_dim)


Flatten = of_function("Flatten", flatten, module=__name__)
