"""Mistral: Llama whose queries see a window of keys."""

from dataclasses import replace

from .configuration import windows
from .llama import ARCHITECTURE as LLAMA
from .llama import DEFAULTS, block, body

ARCHITECTURE = replace(
    LLAMA,
    model_type="mistral",
    classes="Mistral",
    defaults={k: v for k, v in DEFAULTS.items() if k not in ("attention_bias", "mlp_bias")}
    | {
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": None,
    },
    bodies=lambda c: body(c, [block(c, **window) for window in windows(c)]),
)
