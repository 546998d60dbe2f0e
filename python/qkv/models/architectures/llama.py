"""Llama: root-mean-square norms, rotary positions, gated feed-forward networks, shared key and value heads."""

from __future__ import annotations

from typing import Any

from ..architecture import Architecture, HeadTable, Options
from ..configuration import Configuration, rotary

DEFAULTS: dict[str, Any] = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": None, "head_dim": None, "hidden_act": "silu",
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "attention_bias": False,
    "attention_dropout": 0.0, "mlp_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def block(c: Configuration, **changes: Any) -> Options:
    """Give the options of Llama's block."""
    return {
        "nhead": c.num_attention_heads,
        "num_kv_heads": c.num_key_value_heads or c.num_attention_heads,
        "head_dim": c.get("head_dim") or c.hidden_size // c.num_attention_heads,
        "dim_feedforward": c.intermediate_size,
        "activation": c.activation("hidden_act"),
        "gated": True,
        "norm": "rms",
        "norm_eps": c.rms_norm_eps,
        "placement": "pre",
        "bias": c.get("mlp_bias", False),
        "qkv_bias": c.get("attention_bias", False),
        "out_bias": c.get("attention_bias", False),
        "attention_dropout": c.attention_dropout,
        "is_causal": True,
        **rotary(c),
        **changes,
    }


def body(c: Configuration, layers: list[Options]) -> dict[str, Options]:
    """Give the options of Llama's body."""
    return {
        "body": {
            "layers": layers,
            "d_model": c.hidden_size,
            "vocab_size": c.vocab_size,
            "position_rule": "mask",
            "final_norm": "rms",
            "norm_eps": c.rms_norm_eps,
        }
    }


def windows(c: Configuration) -> list[Options]:
    """Give a window for each layer that has one: ``layer_types``, or those from ``max_window_layers`` on."""
    width = c.get("sliding_window") if c.get("use_sliding_window", True) else None
    kinds = c.get("layer_types")
    if kinds is None:
        first = c.get("max_window_layers", 0)
        kinds = ["sliding_attention" if i >= first else "full_attention" for i in range(c.num_hidden_layers)]
    if len(kinds) != c.num_hidden_layers or not {*kinds} <= {"sliding_attention", "full_attention"}:
        raise ValueError(
            f"layer_types must be {c.num_hidden_layers} of full_attention and sliding_attention; got {kinds}"
        )
    return [
        {"window": (width - 1, 0)} if kind == "sliding_attention" and width is not None else {}
        for kind in kinds
    ]


NAMES = {
    "embedding": "embed_tokens",
    "layers.{}.norm1": "layers.{}.input_layernorm",
    "layers.{}.self_attn.q_proj": "layers.{}.self_attn.q_proj",
    "layers.{}.self_attn.k_proj": "layers.{}.self_attn.k_proj",
    "layers.{}.self_attn.v_proj": "layers.{}.self_attn.v_proj",
    "layers.{}.self_attn.out_proj": "layers.{}.self_attn.o_proj",
    "layers.{}.norm2": "layers.{}.post_attention_layernorm",
    "layers.{}.linear_gate": "layers.{}.mlp.gate_proj",
    "layers.{}.linear1": "layers.{}.mlp.up_proj",
    "layers.{}.linear2": "layers.{}.mlp.down_proj",
    "norm": "norm",
}


def words(c: Configuration) -> Options:
    """Give the head of a language model, whose matrix may be that of the embeddings."""
    return {"outputs": c.vocab_size, "tied": c.tie_word_embeddings, "bias": False}


HEADS = {"ForCausalLM": HeadTable(words, {"head.output": "lm_head"})}

ARCHITECTURE = Architecture(
    model_type="llama",
    kind="causal",
    classes="Llama",
    prefix="model",
    defaults=DEFAULTS,
    bodies=lambda c: body(c, [block(c)] * c.num_hidden_layers),
    names=NAMES,
    heads=HEADS,
)
