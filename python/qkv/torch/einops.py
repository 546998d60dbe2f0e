"""einops' layers as modules of :mod:`qkv.torch.nn`, in the place of ``einops.layers.torch``.

einops' functions, such as ``einops.rearrange``, take Tensors as they are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._words.errors import needs
from ..interop import register
from ._creation import zeros
from ._products import einsum
from .nn import Module, Parameter

with needs("qkv.torch.einops: the layers are einops' own; pip install einops"):
    # By its name, because type checkers would follow einops to each framework that is installed.
    _layers: Any = import_module("einops.layers")
    _EinmixMixin: Any = import_module("einops.layers._einmix")._EinmixMixin
register()

__all__ = ["EinMix", "Rearrange", "Reduce"]


class _Layer(Module):
    pattern = reduction = weight_shape = bias_shape = axes_lengths = None  # einops assigns them


class Rearrange(_layers.RearrangeMixin, _Layer):  # type: ignore[misc]
    """``einops.rearrange`` with a pattern.

    Examples
    --------
    >>> import qkv.torch as torch
    >>> from qkv.torch.einops import Rearrange
    >>> Rearrange("b c (h p) -> b h (p c)", p=2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 4, 6])
    """

    forward = _layers.RearrangeMixin._apply_recipe


class Reduce(_layers.ReduceMixin, _Layer):  # type: ignore[misc]
    """``einops.reduce`` with a pattern and ``"sum"``, ``"mean"``, ``"min"``, ``"max"`` or ``"prod"``."""

    forward = _layers.ReduceMixin._apply_recipe


class EinMix(_EinmixMixin, _Layer):  # type: ignore[misc]
    """A product with a weight, and a bias added, by a pattern, which also splits and joins axes."""

    def _create_parameters(self, weight_shape, weight_bound, bias_shape, bias_bound):
        def drawn(shape, bound):
            return None if shape is None else Parameter(zeros(shape).uniform_(-bound, bound))

        self.weight, self.bias = drawn(weight_shape, weight_bound), drawn(bias_shape, bias_bound)

    def _create_rearrange_layers(self, before, before_lengths, after, after_lengths):
        self.pre_rearrange = before and Rearrange(before, **before_lengths)
        self.post_rearrange = after and Rearrange(after, **after_lengths)

    def forward(self, input):
        """The product."""
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
