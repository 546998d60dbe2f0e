"""SmolLM3: Llama with layers without positions, which may have windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .configuration import Configuration, layer_types, windows
from .llama import ARCHITECTURE as LLAMA
from .llama import DEFAULTS, NULLS, block, body
from .table import Options


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; ``no_rope_layers`` holds a 1 for each layer that has positions."""
    count, every = c.num_hidden_layers, c.no_rope_layer_interval
    turned = c.no_rope_layers or [int((i + 1) % every != 0) for i in range(count)]
    if len(turned) != count or not {*turned} <= {0, 1}:
        raise ValueError(f"no_rope_layers must be {count} of 0 and 1; got {str(turned)[:100]}")
    kinds = layer_types(c, lambda i: c.use_sliding_window and not turned[i])
    bare: dict[str, Any] = {"rotary_base": None, "rotary_scaling": None}
    layers = [
        block(c, **({} if turns else bare), **window)
        for turns, window in zip(turned, windows(c, kinds), strict=True)
    ]
    return body(c, layers)


ARCHITECTURE = replace(
    LLAMA,
    model_type="smollm3",
    classes="SmolLM3",
    defaults=DEFAULTS
    | {
        "vocab_size": 128256,
        "hidden_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "pad_token_id": 128004,
        "rope_theta": 2000000.0,
        "use_sliding_window": False,
        "sliding_window": None,
        "no_rope_layers": None,
        "no_rope_layer_interval": 4,
        "tie_word_embeddings": True,
    },
    nulls={"is_causal": NULLS["is_causal"], "num_key_value_heads": None, "pad_token_id": None},
    bodies=options,
)
