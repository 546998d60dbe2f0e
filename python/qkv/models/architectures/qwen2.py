"""Qwen2: Llama with biases of queries, keys and values, and windows in some layers."""

from dataclasses import replace

from .configuration import windows
from .llama import ARCHITECTURE as LLAMA
from .llama import DEFAULTS, block, body

QWEN = {k: v for k, v in DEFAULTS.items() if k not in ("attention_bias", "mlp_bias")} | {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 28,
}

ARCHITECTURE = replace(
    LLAMA,
    model_type="qwen2",
    classes="Qwen2",
    defaults=QWEN,
    bodies=lambda c: body(c, [block(c, qkv_bias=True, **window) for window in windows(c)]),
)
