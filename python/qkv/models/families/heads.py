"""What is on top of a body: poolers, scores of words, scores of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core import Dropout, Embedding, LayerNorm, Linear, Module, Parameter, Tensor
from ...functions.activation import gelu, relu, sigmoid, silu, tanh

FUNCTIONS = {
    "gelu": gelu,
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "relu": relu,
    "sigmoid": sigmoid,
    "silu": silu,
    "tanh": tanh,
}


class Head(Module):
    """``output(norm(activation(dense(pooled x))))``; every part is optional.

    Parameters
    ----------
    width : int
        Features of the body.
    outputs : int
        Words or classes; 0: there is no last matrix, and the rest is what comes out.
    inner : int
        Features of ``dense``; 0: there is none.
    activation : str
        After ``dense``.
    norm_eps : float, optional
        Of the LayerNorm after it; None: there is none.
    bias, inner_bias, norm_bias : bool
        Of ``output``, ``dense`` and the norm.
    fixed_bias : bool
        Training leaves that of ``output`` as it is.
    tied : bool
        The last matrix is that of the body's embeddings.
    scale : float
        Multiplies the features before the last matrix.
    softcap : float
        ``softcap * tanh(y / softcap)``; 0 is off.
    pooling : {"", "first", "two", "mean", "last", "end"}
        Which rows: all, the first one, the mean of those that count, that of the last id but padding, or of the last
        end of the text. With two the scores are the mean of those of the first and, by a matrix of its own, the second.
    dropout : float
    """

    def __init__(
        self,
        width: int,
        outputs: int = 0,
        *,
        inner: int = 0,
        activation: str = "tanh",
        norm_eps: float | None = None,
        bias: bool = True,
        inner_bias: bool = True,
        norm_bias: bool = True,
        fixed_bias: bool = False,
        tied: bool = False,
        scale: float = 1.0,
        softcap: float = 0.0,
        pooling: str = "",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.pooling, self.softcap, self.scale, self.tied = pooling, softcap, scale, tied
        self.activation = activation
        self.dense = Linear(width, inner, bias=inner_bias) if inner else None
        self.norm = None if norm_eps is None else LayerNorm(inner or width, norm_eps, bias=norm_bias)
        self.dropout = Dropout(dropout)
        self.output = Linear(inner or width, outputs, bias=bias) if outputs and not tied else None
        self.second = Linear(width, outputs, bias=bias) if pooling == "two" else None
        self.bias = Parameter(np.zeros(outputs, np.float32)) if tied and bias else None
        if fixed_bias:
            own: Any = self.bias if self.output is None else self.output.bias
            own.requires_grad = False

    def forward(self, x: Tensor, words: Embedding | None = None, keep: np.ndarray | None = None) -> Tensor:
        """Return the scores of x (B, L, M); words is what it is tied to.

        keep (B, L) says which rows count for the mean, and (B,) which one is the last.
        """
        if self.second is not None and self.output is not None:
            return (self.output(x[:, 0]) + self.second(x[:, 1])) / 2
        if self.pooling == "first":
            x = x[:, 0]
        elif self.pooling == "mean":
            x = x.mean(axis=1) if keep is None else (x * keep[..., None]).sum(axis=1) / keep.sum(1)[:, None]
        elif self.pooling and keep is not None:
            x = x[np.arange(len(keep)), keep]
        if self.dense is not None:
            x = FUNCTIONS[self.activation](self.dense(x))
        if self.norm is not None:
            x = self.norm(x)
        x = self.dropout(x)
        if self.scale != 1:
            x = x * self.scale
        if self.tied:
            embeddings: Any = words
            x = embeddings.logits(x, self.bias)
        elif self.output is not None:
            x = self.output(x)
        return self.softcap * tanh(x / self.softcap) if self.softcap else x
