"""Linear attention beside its recurrence, step by step in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from registry import Case, faster_than, normal, row

import qkv

SHAPE = (1, 8, 4096, 64)
RULES = ("linear", "gated", "delta", "gated_delta")


def recurrence(query: Any, key: Any, value: Any, *, decay: Any = None, beta: Any = None) -> np.ndarray:
    """Compute in place, as far as NumPy can, all heads at once."""
    size, output = key.shape[-1], np.empty_like(value)
    state, scale = np.zeros((*key.shape[:2], size, value.shape[-1]), key.dtype), 1 / np.sqrt(size)
    fading = None if decay is None else np.exp(decay).reshape(*decay.shape[:3], -1, 1)
    for t in range(key.shape[2]):
        if fading is not None:
            state *= fading[:, :, t]
        change = value[:, :, t, None]
        if beta is not None:
            change = beta[:, :, t, None, None] * (change - key[:, :, t, None] @ state)
        state += key[:, :, t, :, None] * change
        output[:, :, t] = (query[:, :, t, None] @ state)[:, :, 0]
    output *= scale
    return output


def linear_attention(rule: str, per_feature: bool, threads: int) -> Case:
    query, key, value = (normal(*SHAPE, seed=seed) for seed in range(3))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    rates: dict[str, Any] = {}
    if "gated" in rule:
        rates["decay"] = -0.1 * np.abs(normal(*(SHAPE if per_feature else SHAPE[:3]), seed=3))
    if "delta" in rule:
        rates["beta"] = np.random.default_rng(4).random(SHAPE[:3], np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "qkv": lambda: qkv.linear_attention(query, key, value, update_rule=rule, **rates),
        "NumPy, step by step": lambda: recurrence(query, key, value, **rates),
    }
    np.testing.assert_allclose(calls["qkv"](), calls["NumPy, step by step"](), atol=1e-3)
    return Case(calls)


for _rule in RULES:
    for _per_feature in (False, True) if "gated" in _rule else (False,):
        row(
            f"linear attention {SHAPE}, {_rule}{', a decay for each feature' if _per_feature else ''}",
            goals=[faster_than("NumPy, step by step", 5.0)],
            peers=["NumPy, step by step"],
        )(partial(linear_attention, _rule, _per_feature))
