"""Qwen3: Llama with norms of each head's queries and keys."""

from dataclasses import replace

from .configuration import windows
from .llama import ARCHITECTURE as LLAMA
from .llama import NAMES, block, body
from .qwen2 import QWEN

ARCHITECTURE = replace(
    LLAMA,
    model_type="qwen3",
    classes="Qwen3",
    defaults=QWEN | {"head_dim": 128, "attention_bias": False},
    bodies=lambda c: body(c, [block(c, qk_norm="rms", **window) for window in windows(c)]),
    names=NAMES
    | {
        "layers.{}.self_attn.q_norm": "layers.{}.self_attn.q_norm",
        "layers.{}.self_attn.k_norm": "layers.{}.self_attn.k_norm",
    },
)
