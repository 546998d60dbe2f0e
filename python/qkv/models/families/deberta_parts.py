"""Parts of DeBERTa that other models do not have: matrices for distances, and a convolution after the first layer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from ..._core import Dropout, LayerNorm, Linear, Module, Parameter, SkipInit, Tensor, TransformerBlock, linear
from ...functions.joining import concatenate
from ...random import randn
from .heads import FUNCTIONS

OWN_PARTS = ("convolution", "distances")  # options of layers that blocks do not have


class DistanceLinear(Linear):
    """A projection of words (B, L, M), with another matrix for the rows (R, M) of distances."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        self.distances = Linear(width, outputs)

    def forward(self, x: Any) -> Tensor:
        """Compute it, ``(..., outputs)``."""
        y: Tensor = self.distances(x) if x.ndim == 2 else super().forward(x)
        return y


class Convolution(Module):
    """``y[i] = bias + sum over t of weight[:, :, t] @ x[i + t - kernel // 2]``, zeros outside, features in groups."""

    def __init__(self, width: int, kernel: int, groups: int) -> None:
        super().__init__()
        inner = width // groups
        self.kernel, self.groups = kernel, groups
        self.weight = Parameter(randn(width, inner, kernel) * (inner * kernel) ** -0.5)
        self.bias = Parameter(np.zeros(width, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Compute it, ``(B, L, M)``."""
        batch, length, width = x.shape
        edge = np.zeros((batch, self.kernel // 2, width), str(x.dtype))
        wide, inner = concatenate([edge, x, edge], axis=1), width // self.groups
        parts = []
        for begin in range(0, width, inner):
            part = slice(begin, begin + inner)
            taps = [
                linear(wide[:, t : t + length, part], self.weight[part, :, t], None)
                for t in range(self.kernel)
            ]
            parts.append(sum(taps[1:], taps[0]))
        y: Tensor = concatenate(parts, axis=2) + self.bias
        return y


class ConvolvedBlock(TransformerBlock):
    """``norm(block(x) + activation(convolution(x)))``, zeros where the mask keeps nothing."""

    def __init__(self, convolution: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        width = options["d_model"]
        self.activation = convolution["activation"]
        self.conv = Convolution(width, convolution["kernel"], convolution["groups"])
        self.conv_dropout = Dropout(options["dropout"])
        self.conv_norm = LayerNorm(width, options["norm_eps"])

    def forward(self, x: Any, *others: Any, **options: Any) -> Any:
        """Compute it, ``(B, L, M)``."""
        y: Tensor = super().forward(x, *others, **options)
        keep = np.ones(x.shape[:2], str(x.dtype))
        if (mask := options.get("attention_mask")) is not None and np.ndim(mask) == 2:
            keep = keep * np.asarray(mask)
        if (lens := options.get("valid_lens")) is not None and np.ndim(lens) == 1:
            keep = keep * (np.arange(x.shape[1]) < np.asarray(lens)[:, None])
        keep = keep[..., None].astype(str(x.dtype))
        moved = FUNCTIONS[self.activation](self.conv_dropout(self.conv(x * keep) * keep))
        return self.conv_norm(y + moved) * keep


def replace_parts(body: Any, layers: list[dict[str, Any]], own: list[dict[str, Any]], values: bool) -> None:
    """Put the parts that tables ask for in the places of a body's.

    Parameters
    ----------
    body : TransformerBody
    layers : list of dict
        The options of its layers.
    own : list of dict
        For each layer ``distances``, which projections have a matrix for distances, and ``convolution``.
    values : bool
        False leaves their parameters undefined.
    """
    with nullcontext() if values else SkipInit():
        for i, (options, parts) in enumerate(zip(layers, own, strict=True)):
            if parts.get("convolution"):
                width = body.embedding.weight.shape[1]
                body.layers[i] = ConvolvedBlock(parts["convolution"], d_model=width, **options)
            attention = body.layers[i].self_attn
            for name in parts.get("distances", ()):
                before = getattr(attention, name)
                setattr(attention, name, DistanceLinear(before.in_features, before.out_features))
