"""Qwen2: Llama with biases of queries, keys and values, and windows in some layers."""

from dataclasses import replace
from typing import Any

from .configuration import Configuration, layer_types, windows
from .llama import ARCHITECTURE as LLAMA
from .llama import WITHOUT_BIAS, block, body
from .table import Options

QWEN = WITHOUT_BIAS | {
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
NULLS = {"is_causal": False, "sliding_window": None, "num_key_value_heads": None}


def options(c: Configuration, **more: Any) -> dict[str, Options]:
    """Return the body's; layers from one on have windows, where they are used."""
    kinds = layer_types(c, lambda i: c.use_sliding_window and i >= c.max_window_layers)
    return body(c, [block(c, **more, **window) for window in windows(c, kinds, c.use_sliding_window)])


ARCHITECTURE = replace(
    LLAMA,
    model_type="qwen2",
    classes="Qwen2",
    defaults=QWEN,
    nulls=NULLS,
    bodies=lambda c: options(c, qkv_bias=True),
)
