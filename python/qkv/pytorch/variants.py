"""The core's functions as functions of PyTorch, ready."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from .. import _core
from ..functions import additive, image, linear, normalizers
from ..functions import attention as core
from ..kernel_pooling import functions as pooling
from . import kernels
from .autograd import apply, function, not_compiled
from .memory import HALF

_DEFAULTS: dict[str, Any] = inspect.unwrap(core.scaled_dot_product_attention).__kwdefaults__


def key_of_dropout() -> int:
    """Draw from torch's generator what its dropout is drawn by."""
    return int(torch.randint(2**62, ()))


kernel_attention = function(pooling.kernel_attention)
linear_attention = function(linear.linear_attention)
softmax = function(normalizers.softmax)
masked_softmax = function(normalizers.masked_softmax)
sparsemax = function(normalizers.sparsemax)
entmax = function(normalizers.entmax)
attention_image = function(image.attention_image)


_additive = function(additive.additive_attention)
_dropped_additive = function(_core.additive_attention)  # with an option that is not public


@not_compiled
@functools.wraps(additive.additive_attention)
def additive_attention(*args: Any, dropout_p: float = 0.0, **options: Any) -> Any:
    if not dropout_p:
        return _additive(*args, **options)
    defaults = inspect.unwrap(additive.additive_attention).__kwdefaults__
    options = {**defaults, **options, "dropout_p": dropout_p, "dropout_key": key_of_dropout()}
    return _dropped_additive(*args, **options)


def unexpanded(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask without the copies that ``expand`` stands for: broadcasting makes them."""
    for axis, (step, size) in enumerate(zip(mask.stride(), mask.shape, strict=True)):
        mask = mask.narrow(axis, 0, 1) if step == 0 and size > 1 else mask
    return mask


@not_compiled
@functools.wraps(core.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **options: Any,
) -> Any:
    mask = None if attn_mask is None else unexpanded(attn_mask)
    key_of_mask = key_of_dropout() if dropout_p else None
    records = torch.is_grad_enabled() and (
        query.requires_grad
        or key.requires_grad
        or value.requires_grad
        or (mask is not None and mask.requires_grad)
    )
    if kernels.serve(query, key, value, mask, enable_gqa, options, records):
        constants = {"is_causal": is_causal, "scale": scale, "keep_layout": True, **options}
        if dropout_p:
            constants |= {"dropout_p": dropout_p, "dropout_key": key_of_mask}
        try:
            return (kernels.attention if records else kernels.output_of)(query, key, value, mask, constants)
        except (TypeError, ValueError):
            pass  # the other way explains it
    half = query.dtype if query.dtype in HALF else None
    weights, lse = options.get("return_weights", False), options.get("return_lse", False)
    names = [name for name, value in options.items() if isinstance(value, torch.Tensor)]
    private = {"dropout_key": key_of_mask, "keep_layout": True}

    def arrays(leaves: Sequence[Any]) -> Sequence[Any]:
        q, k, v, m, *rest = leaves
        named = {**_DEFAULTS, **options, **dict(zip(names, rest, strict=True)), **private}
        results = _core.scaled_dot_product_attention(
            q, k, v, m, dropout_p, is_causal, scale, enable_gqa, **named
        )
        return results if weights or lse else [results]

    _check(options)
    leaves = query, key, value, mask, *[options[name] for name in names]
    results = apply(arrays, leaves, [half, *[half] * weights, *[None] * lse] if half else None)
    return tuple(results) if weights or lse else results[0]


def _check(options: dict[str, Any]) -> None:
    if unknown := sorted(options.keys() - _DEFAULTS.keys()):
        # Raises in the core's words.
        core.scaled_dot_product_attention(1.0, 1.0, 1.0, **{unknown[0]: options[unknown[0]]})
