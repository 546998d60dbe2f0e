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
from .threads import limited

# Of scaled_dot_product_attention, beside the arguments in PyTorch's order.
_OPTIONS = frozenset(["valid_lens", "window", "softcap", "alibi_slopes", "q_offset", "sinks", "masked_value"])


def serve(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    enable_gqa: bool,
    options: Mapping[str, Any],
    records: bool,
) -> bool:
    """Whether a call needs the kernels' output, and gradients of all three inputs if it records, and nothing else.

    Options are plain numbers: nobody can change them between the passes.
    """
    if (
        query.dtype != key.dtype
        or query.dtype != value.dtype
        or (query.dtype != torch.float32 and query.dtype != torch.float64)
        or not (query.dim() < 4 or enable_gqa or query.shape[1] == key.shape[1])
        or not (mask is None or mask.dtype == torch.bool)
        or (options and not (options.keys() <= _OPTIONS and all(map(_is_plain, options.values()))))
        or query.is_neg()
        or key.is_neg()
        or value.is_neg()  # numbers whose sign is told beside them
    ):
        return False
    return not records or (query.requires_grad and key.requires_grad and value.requires_grad)


def _is_plain(x: Any) -> bool:
    return x is None or isinstance(x, (int, float, tuple))


def _numbers(x: torch.Tensor) -> torch.Tensor:
    return x.detach() if x.requires_grad else x


def _block(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, options: dict[str, Any]
) -> Any:
    refuse_transforms(query, key, value)
    if mask is not None:
        options = {**options, "attn_mask": _numbers(mask)}
    return limited(_core.attention_block, _numbers(query), _numbers(key), _numbers(value), options, query)


def output_of(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, options: dict[str, Any]
) -> torch.Tensor:
    """Return the output of attention that nobody records."""
    found: torch.Tensor = _block(query, key, value, mask, options)[0]
    return found


class _Attention(torch.autograd.Function):
    """The output for queries, keys, values and a mask; the options are constants."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: Any,
        options: dict[str, Any],
    ) -> torch.Tensor:
        out, statistics = _block(query, key, value, mask, options)
        ctx.options = options
        ctx.save_for_backward(query, key, value, mask, out, statistics)
        return out

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> Any:
        query, key, value, mask, out, statistics = ctx.saved_tensors
        options = ctx.options if mask is None else {**ctx.options, "attn_mask": mask}
        if torch.is_grad_enabled():  # create_graph
            return *_gradients_again(options, query, key, value, dout), None, None
        q, k, v, y = _numbers(query), _numbers(key), _numbers(value), out.detach()
        found = limited(_core.attention_block_backward, dout, None, y, statistics, q, k, v, options, query)
        return *found[:3], None, None


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
