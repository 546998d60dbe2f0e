"""Attention with gradients from what its kernels saved, output and statistics, which are tensors of PyTorch.

No history of qkv's is between the passes: what is saved may lie elsewhere then (checkpoints, offloading), and is freed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..functions.gradients import grad
from .autograd import apply
from .memory import refuse_transforms

# Of scaled_dot_product_attention, beside the arguments in PyTorch's order.
_OPTIONS = frozenset(["valid_lens", "window", "softcap", "alibi_slopes", "q_offset", "sinks", "masked_value"])


def serve(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    enable_gqa: bool,
    options: Mapping[str, Any],
) -> bool:
    """Whether the kernels' gradients are all that a call with these arguments needs."""
    return (
        query.dtype == key.dtype == value.dtype
        and (query.dtype == torch.float32 or query.dtype == torch.float64)
        and (mask is None or mask.dtype == torch.bool)
        and not (query.is_inference() or key.is_inference() or value.is_inference())  # not saved by PyTorch
        and (query.dim() < 4 or enable_gqa or query.shape[1] == key.shape[1])
        and (not options or (options.keys() <= _OPTIONS and not any(map(_has_gradient, options.values()))))
    )


def _has_gradient(x: Any) -> bool:
    return getattr(x, "requires_grad", False)


class _Attention(torch.autograd.Function):
    """The output for queries, keys and values; the options are constants."""

    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]
    ) -> torch.Tensor:
        refuse_transforms(query, key, value)
        before = _core.limit_threads(torch.get_num_threads())
        try:
            found = _core.attention_block(query.detach(), key.detach(), value.detach(), options)
        finally:
            _core.limit_threads(before)
        out, statistics = torch.from_numpy(found[0]), torch.from_numpy(found[1])
        ctx.options = options
        ctx.save_for_backward(query, key, value, out, statistics)
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> Any:
        query, key, value, out, statistics = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph
            return *_gradients_again(ctx.options, query, key, value, dout), None
        before = _core.limit_threads(torch.get_num_threads())
        try:
            found = _core.attention_block_backward(
                dout,
                None,
                out.detach(),
                statistics,
                query.detach(),
                key.detach(),
                value.detach(),
                ctx.options,
            )
        finally:
            _core.limit_threads(before)
        return torch.from_numpy(found[0]), torch.from_numpy(found[1]), torch.from_numpy(found[2]), None


attention = torch.compiler.disable(_Attention.apply)


def _gradients_again(options: dict[str, Any], *tensors: torch.Tensor) -> Any:
    """Return gradients that can be differentiated, by composed operations."""

    def gradients(leaves: Sequence[_core.Tensor]) -> Any:
        *inputs, dy = leaves
        for x in inputs:
            x.requires_grad = True
        query, key, value = inputs
        output, _ = _core.attention_by_options(query, key, value, options)
        return grad(output, inputs, dy, create_graph=True)

    return apply(gradients, tensors, None)
