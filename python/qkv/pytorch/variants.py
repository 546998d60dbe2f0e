"""The core's functions as functions of PyTorch, ready."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from .. import _core
from ..functions import additive, image, linear, normalizers
from ..functions import attention as core
from ..kernel_pooling import functions as pooling
from ..random import get_rng_state, manual_seed, set_rng_state
from . import kernels
from .autograd import apply, function, not_compiled
from .memory import HALF, shared, to_torch

_attention: Callable[..., Any] = _core.scaled_dot_product_attention  # with options that are not public


def key_of_dropout() -> int:
    """Draw from torch's generator what its dropout is drawn by."""
    return int(torch.randint(2**62, ()))


def _drawn_by_torch(f: Callable[..., Any], dropout: float) -> Callable[..., Any]:
    """Return f with its dropout drawn by torch's generator, whose seeds and checkpoints then hold, in every pass."""
    if not dropout > 0:
        return f
    seed = key_of_dropout()

    @functools.wraps(f)
    def drawn(*args: Any, **options: Any) -> Any:
        before = get_rng_state()
        manual_seed(seed)
        try:
            return f(*args, **options)
        finally:
            set_rng_state(before)

    return drawn


kernel_attention = function(pooling.kernel_attention)
linear_attention = function(linear.linear_attention)
softmax = function(normalizers.softmax)
masked_softmax = function(normalizers.masked_softmax)
sparsemax = function(normalizers.sparsemax)
entmax = function(normalizers.entmax)
attention_image = function(image.attention_image)


@not_compiled
@functools.wraps(additive.additive_attention)
def additive_attention(*args: Any, dropout_p: float = 0.0, **options: Any) -> Any:
    f = function(_drawn_by_torch(additive.additive_attention, dropout_p))
    return f(*args, dropout_p=dropout_p, **options)


def unexpanded(mask: torch.Tensor | None) -> torch.Tensor | None:
    """Return a mask without the copies that ``expand`` stands for: broadcasting makes them."""
    if mask is None:
        return None
    for axis, (step, size) in enumerate(zip(mask.stride(), mask.shape, strict=True)):
        mask = mask.narrow(axis, 0, 1) if step == 0 and size > 1 else mask
    return mask.contiguous() if mask.is_floating_point() else mask


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
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        mask = unexpanded(attn_mask)
        if kernels.serve(query, key, value, mask, enable_gqa, options):
            constants = {
                "attn_mask": mask,
                "is_causal": is_causal,
                "scale": scale,
                "keep_layout": True,
                **options,
            }
            if dropout_p:
                constants |= {"dropout_p": dropout_p, "dropout_key": key_of_dropout()}
            with suppress(TypeError, ValueError):  # explained below
                return kernels.attention(query, key, value, constants)
    elif not (options or dropout_p or (attn_mask is not None and attn_mask.requires_grad)):
        return _plain(query, key, value, attn_mask, is_causal, scale, enable_gqa)
    half = query.dtype if query.dtype in HALF else None
    weights, lse = options.get("return_weights", False), options.get("return_lse", False)
    names = [name for name, value in options.items() if isinstance(value, torch.Tensor)]
    if dropout_p:
        options["dropout_key"] = key_of_dropout()

    def arrays(leaves: Sequence[Any]) -> Sequence[Any]:
        q, k, v, mask, *rest = leaves
        given = {**options, **dict(zip(names, rest, strict=True))} if options else options
        results = _attention(
            q, k, v, mask, dropout_p, is_causal, scale, enable_gqa, keep_layout=True, **given
        )
        return results if weights or lse else [results]

    leaves = query, key, value, unexpanded(attn_mask), *[options[name] for name in names]
    results = apply(arrays, leaves, [half, *[half] * weights, *[None] * lse] if half else None)
    return tuple(results) if weights or lse else results[0]


def _plain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """Return the output alone, which nobody records, without a detour."""
    before = _core.limit_threads(torch.get_num_threads())
    try:
        mask = None if attn_mask is None else shared(unexpanded(attn_mask))
        q, k, v = shared(query), shared(key), shared(value)
        y = _attention(q, k, v, mask, 0.0, is_causal, scale, enable_gqa, keep_layout=True)
        return to_torch(y, query.dtype if query.dtype in HALF else None)
    finally:
        _core.limit_threads(before)
