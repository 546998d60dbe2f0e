"""Qwen3: Llama with norms of each head's queries and keys."""

from dataclasses import replace

from .llama import ARCHITECTURE as LLAMA
from .llama import NAMES
from .qwen2 import NULLS, QWEN, options

ARCHITECTURE = replace(
    LLAMA,
    model_type="qwen3",
    classes="Qwen3",
    defaults=QWEN | {"head_dim": 128, "attention_bias": False},
    nulls=NULLS,
    bodies=lambda c: options(c, qk_norm="rms"),
    names=NAMES
    | {
        "layers.{}.self_attn.q_norm": "layers.{}.self_attn.q_norm",
        "layers.{}.self_attn.k_norm": "layers.{}.self_attn.k_norm",
    },
)
