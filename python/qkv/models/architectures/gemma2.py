"""Gemma 2: norms before and after each sublayer, soft caps, windows in every second layer."""

from __future__ import annotations

from typing import Any

from .configuration import Configuration, layer_types, windows
from .llama import DEFAULTS, NAMES, NULLS, block, body
from .table import Architecture, Options, Piece, decoder_heads, language_head


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; embeddings are multiplied by the root of their width."""
    common: dict[str, Any] = {
        "placement": "sandwich",
        "scale": c.query_pre_attn_scalar**-0.5,
        "softcap": c.attn_logit_softcapping,
    }
    kinds = layer_types(c, lambda i: i % 2 == 0)
    layers = [block(c, "hidden_activation", **common, **window) for window in windows(c, kinds)]
    return body(c, layers, embedding_scale=c.hidden_size**0.5)


def norm(name: str) -> Piece:
    """Return a norm that multiplies by 1 + weight."""
    return Piece(name + ".weight", added=1.0)


ARCHITECTURE = Architecture(
    model_type="gemma2",
    kind="causal",
    classes="Gemma2",
    prefix="model",
    defaults={k: v for k, v in DEFAULTS.items() if k not in ("mlp_bias", "hidden_act")}
    | {
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "query_pre_attn_scalar": 256.0,
        "sliding_window": 4096,
        "final_logit_softcapping": 30.0,
        "attn_logit_softcapping": 50.0,
    },
    allowed={"use_bidirectional_attention": (False, None)},
    nulls={
        **NULLS,
        "sliding_window": None,
        "final_logit_softcapping": 0.0,
        "attn_logit_softcapping": 0.0,
    },
    bodies=options,
    names={k: v for k, v in NAMES.items() if "norm" not in k}
    | {
        "layers.{}.norm1.weight": norm("layers.{}.input_layernorm"),
        "layers.{}.post_norm1.weight": norm("layers.{}.post_attention_layernorm"),
        "layers.{}.norm2.weight": norm("layers.{}.pre_feedforward_layernorm"),
        "layers.{}.post_norm2.weight": norm("layers.{}.post_feedforward_layernorm"),
        "norm.weight": norm("norm"),
    },
    heads={"ForCausalLM": language_head(softcap=lambda c: c.final_logit_softcapping), **decoder_heads()},
)
