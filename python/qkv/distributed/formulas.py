"""Formulas of attention over ranks: what they capture, positions in a block of keys, blocks by recorded operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._formulas import captured_tensors, of_part
from .._formulas.errors import name_of
from ..functions.grad_mode import GradMode
from ..functions.gradients import no_grad

Array = NDArray[Any]


def captured(operation: str, options: dict[str, Any], shape: tuple[int, int, int, int]) -> list[Any]:
    """Return the Tensors that take a gradient in score_mod; refuses formulas that cannot be traced."""
    found: dict[int, Any] = {}
    for name, scores in (("score_mod", True), ("mask_mod", False)):
        if options[name] is not None:
            tensors = captured_tensors(operation, name, options[name], shape, scores)
            found.update((id(x), x) for x in tensors if scores)
    return list(found.values())


def moved(function: Callable[..., Any] | None, begin: int) -> Callable[..., Any] | None:
    """Return a formula of positions that are counted from key `begin`."""
    if function is None or begin == 0:
        part: Callable[..., Any] | None = of_part(function)
        return part

    def from_here(*arguments: Any) -> Any:
        *before, q_idx, kv_idx = arguments
        return function(*before, q_idx + begin, kv_idx + begin)

    from_here.__name__ = name_of(function)
    return from_here


def _with_drawn(query: Array, key: Array, options: dict[str, Any]) -> dict[str, Any]:
    """Return options whose dropout is a mask: that of this block in what one process draws.

    It is read off from kernels: uniform weights times the rows of the identity are 0 where dropped.
    """
    if options.get("dropout_key") is None:
        return options
    B, H, Lq, _ = query.shape
    Lk = key.shape[2]
    stream = {name: options[name] for name in ("dropout_p", "dropout_key", "dropout_origin")}
    rows = np.broadcast_to(np.eye(Lk, dtype=query.dtype), (B, 1, Lk, Lk))
    zeros = np.zeros((B, H, max(Lq, Lk), 1), query.dtype)
    drawn, _ = _core.attention_block(zeros[:, :, :Lq], zeros[:, :1, :Lk], np.ascontiguousarray(rows), stream)
    return {**options, "dropout_key": None, "dropout_origin": None, "dropout_keep": drawn != 0}


def block(query: Array, key: Array, value: Array, options: dict[str, Any]) -> tuple[Array, Array]:
    """Return what :func:`_core.attention_block` returns, by recorded operations: the only kernels for a score_mod."""
    options = _with_drawn(query, key, options)
    with no_grad():
        output, sums = _core.attention_by_options(query, key, value, options)
    out, lse = np.array(output), np.zeros(query.shape[:3]) if sums is None else np.array(sums)
    some = np.isfinite(lse)
    return out, np.stack([np.where(some, lse, 0), some.astype(lse.dtype)], axis=-1)


def block_gradients(
    dout: Array,
    dlse: Array | None,
    out: Array,
    statistics: Array,
    arrays: list[Array],
    options: dict[str, Any],
    captured: list[Any],
) -> list[Any]:
    """Return the gradients of query, key, value, a float mask or None, and the captured Tensors.

    A block with the output o_b and the sum of exponentials e^(l_b) has the share p = e^(l_b - l) of the whole, whose
    output is the sum of p o_b: d o_b = p d, and d l_b = p (d . (o_b - o) + d l). Without such sums p is 1.
    """
    options = _with_drawn(arrays[0], arrays[1], options)
    with GradMode(True):
        inputs = [_core.tensor(x, None, True) for x in arrays]
        mask = options["attn_mask"]
        bias = mask is not None and mask.dtype != np.bool_
        if bias:
            inputs.append(_core.tensor(mask, None, True))
            options = {**options, "attn_mask": inputs[3]}
        out_b, lse_b = _core.attention_by_options(inputs[0], inputs[1], inputs[2], options)
        if lse_b is None:
            loss = (out_b * dout).sum()
        else:
            sums = np.asarray(lse_b.detach())
            inverse = statistics[..., 1]
            some = np.isfinite(sums) & (inverse > 0)
            share = np.where(
                some, np.asarray(_core.exp(np.where(some, sums, 0) - statistics[..., 0])) * inverse, 0
            )
            of_sums = (dout * (np.asarray(out_b.detach()) - out)).sum(-1) + (0 if dlse is None else dlse)
            loss = (out_b * (share[..., None] * dout).astype(out.dtype)).sum()
            loss = loss + (_core.where(some, lse_b, 0.0) * (share * of_sums).astype(out.dtype)).sum()
        found = [np.array(x) for x in _core.grad(loss, [*inputs, *captured], None, False, False)]
    return found if bias else [*found[:3], None, *found[3:]]
