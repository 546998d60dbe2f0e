"""The core's function of attention with options by name, of which some are not public."""

from __future__ import annotations

from typing import Any

from qkv import _core

OFF = {"dropout_p": 0.0, "softcap": 0.0, "normalizer": "softmax"}
FLAGS = ("is_causal", "enable_gqa", "return_weights", "return_lse")
NAMES = [
    "attn_mask",
    "dropout_p",
    "is_causal",
    "scale",
    "enable_gqa",
    "valid_lens",
    "window",
    "softcap",
    "alibi_slopes",
    "q_offset",
    "sinks",
    "masked_value",
    "dropout_keep",
    "return_weights",
    "return_lse",
    "score_mod",
    "mask_mod",
    "normalizer",
]


def attend(q: Any, k: Any, v: Any, **options: Any) -> tuple[Any, ...]:
    own = {name: options.pop(name) for name in [*options] if name not in NAMES}
    values = [options.get(name, OFF.get(name, False if name in FLAGS else None)) for name in NAMES]
    y = _core.scaled_dot_product_attention(q, k, v, *values, **own)
    return y if isinstance(y, tuple) else (y,)
