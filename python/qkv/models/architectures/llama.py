"""Llama: root-mean-square norms, rotary positions, gated feed-forward networks, shared key and value heads."""

from __future__ import annotations

from typing import Any

from .configuration import Configuration, head_width, rotary, sizes
from .table import Architecture, Options, biases, decoder_heads, language_head, only_body, projections

DEFAULTS: dict[str, Any] = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": False,
    "attention_dropout": 0.0, "mlp_bias": False, "tie_word_embeddings": False, "is_causal": True,
}  # fmt: skip
NULLS = {"is_causal": False, "attention_dropout": 0.0}
WITHOUT_BIAS = {k: v for k, v in DEFAULTS.items() if k not in ("attention_bias", "mlp_bias")}


def block(c: Configuration, entry: str = "hidden_act", **changes: Any) -> Options:
    """Return the options of Llama's block."""
    return {
        **sizes(c, entry),
        "num_kv_heads": c.num_key_value_heads or c.num_attention_heads,
        "head_dim": head_width(c),
        "gated": True,
        "norm": "rms",
        "norm_eps": c.rms_norm_eps,
        **biases(c.get("attention_bias", False), c.get("mlp_bias", False)),
        "attention_dropout": c.attention_dropout,
        "is_causal": c.is_causal,
        **rotary(c),
        **changes,
    }


def body(c: Configuration, layers: list[Options], **more: Any) -> dict[str, Options]:
    """Return the options of Llama's body."""
    return only_body(c, layers, position_rule="mask", final_norm="rms", norm_eps=c.rms_norm_eps, **more)


NAMES = {
    "embedding": "embed_tokens",
    "layers.{}.norm1": "layers.{}.input_layernorm",
    **projections("layers.{}.self_attn", "layers.{}.self_attn.", ("q_proj", "k_proj", "v_proj", "o_proj")),
    "layers.{}.norm2": "layers.{}.post_attention_layernorm",
    "layers.{}.linear_gate": "layers.{}.mlp.gate_proj",
    "layers.{}.linear1": "layers.{}.mlp.up_proj",
    "layers.{}.linear2": "layers.{}.mlp.down_proj",
    "norm": "norm",
}


ARCHITECTURE = Architecture(
    model_type="llama",
    kind="causal",
    classes="Llama",
    prefix="model",
    defaults=DEFAULTS,
    nulls=NULLS,
    bodies=lambda c: body(c, [block(c)] * c.num_hidden_layers),
    names=NAMES,
    heads={"ForCausalLM": language_head(), **decoder_heads(questions="transformer")},
)
