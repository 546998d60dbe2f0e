"""Mistral: Llama whose queries see a window of keys."""

from dataclasses import replace

from .configuration import windows
from .llama import ARCHITECTURE as LLAMA
from .llama import WITHOUT_BIAS, block, body
from .table import decoder_heads

ARCHITECTURE = replace(
    LLAMA,
    model_type="mistral",
    classes="Mistral",
    defaults=WITHOUT_BIAS
    | {
        "intermediate_size": 14336,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    nulls={"is_causal": False, "sliding_window": None},
    heads={**LLAMA.heads, **decoder_heads(questions="model")},
    bodies=lambda c: body(
        c, [block(c, **one) for one in windows(c, ["sliding_attention"] * c.num_hidden_layers)]
    ),
)
