"""Linear, Embedding, normalisation, dropout and what changes shapes."""

from __future__ import annotations

import math
from typing import Any

from .._creation import empty, ones, zeros
from .._tensor import Tensor
from . import functional as F
from . import init
from ._module import Module
from .parameter import Parameter, UninitializedParameter


def draw_affine(weight: Tensor, bias: Tensor | None) -> None:
    """Draw the weight and bias of a linear map, from ``+-1 / sqrt(n)`` for n inputs of an output."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        inputs = math.prod(weight.shape[1:])
        bound = 1 / math.sqrt(inputs) if inputs > 0 else 0
        init.uniform_(bias, -bound, bound)


class Identity(Module):
    """Gives its input back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Itself."""
        return input


class Linear(Module):
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
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        draw_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """``(..., in_features)`` to ``(..., out_features)``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


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
        self.weight = UninitializedParameter()
        if bias:
            self.bias = UninitializedParameter()
        else:
            self.register_parameter("bias", None)

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


class Bilinear(Module):
    """``x1 weight[k] x2 + bias[k]``."""

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        bound = 1 / math.sqrt(in1_features) if in1_features > 0 else 0
        self.weight = Parameter(empty(out_features, in1_features, in2_features))
        init.uniform_(self.weight, -bound, bound)
        if bias:
            self.bias = Parameter(empty(out_features))
            init.uniform_(self.bias, -bound, bound)
        else:
            self.register_parameter("bias", None)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Two inputs to one output."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Embedding(Module):
    """A table of vectors, drawn from the normal distribution.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> torch.nn.Embedding(5, 3)(torch.tensor([[0, 4]])).shape
    torch.Size([1, 2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if max_norm is not None or scale_grad_by_freq:
            raise ValueError("Embedding: max_norm and scale_grad_by_freq are not known to qkv.torch")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = (
            padding_idx if padding_idx is None or padding_idx >= 0 else padding_idx + num_embeddings
        )
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw the table anew; the row of the padding is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """A table of vectors that exist."""
        rows, width = embeddings.shape
        made = cls(rows, width, padding_idx=padding_idx, _weight=embeddings)
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Tensor) -> Tensor:
        """``(...)`` to ``(..., embedding_dim)``."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Shifted and scaled to mean 0 and variance 1 over the last axes, then by learned weights."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, dtype=dtype))
            if bias:
                self.bias = Parameter(zeros(*self.normalized_shape, dtype=dtype))

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divided by the root of the mean square over the last axes, times learned weights."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, dtype=dtype))
        else:
            self.register_parameter("weight", None)

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(Module):
    """Zeros with probability p in training, the rest divided by ``1 - p``."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"p={self.p}, inplace={self.inplace}"


class Flatten(Module):
    """Axes ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Any:
        """Fewer axes."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


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
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
