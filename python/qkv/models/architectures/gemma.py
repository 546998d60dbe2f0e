"""Gemma: Llama with the norms and the embeddings of Gemma 2."""

from __future__ import annotations

from .configuration import Configuration
from .gemma2 import norm
from .llama import ARCHITECTURE as LLAMA
from .llama import DEFAULTS, NAMES, block, body
from .table import Architecture, Options, decoder_heads


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; old files say gelu and mean its form with tanh."""
    activation = "gelu_tanh" if c.hidden_act == "gelu" else c.activation("hidden_act")
    layers = [block(c, activation=activation)] * c.num_hidden_layers
    return body(c, layers, embedding_scale=c.hidden_size**0.5)


ARCHITECTURE = Architecture(
    model_type="gemma",
    kind="causal",
    classes="Gemma",
    prefix="model",
    defaults={k: v for k, v in DEFAULTS.items() if k != "mlp_bias"}
    | {
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    },
    allowed={"use_bidirectional_attention": (False, None)},
    nulls={"is_causal": False, "pad_token_id": None},
    bodies=options,
    names={k: v for k, v in NAMES.items() if "norm" not in k}
    | {f"{k}.weight": norm(v) for k, v in NAMES.items() if "norm" in k},
    heads={"ForCausalLM": LLAMA.heads["ForCausalLM"], **decoder_heads()},
)
