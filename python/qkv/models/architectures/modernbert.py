"""ModernBERT: rotary positions, gated feed-forward networks, most layers with a window."""

from __future__ import annotations

from typing import Any

from ..architecture import Architecture, HeadTable, Options, Piece, packed
from ..configuration import Configuration, rotary


def options(c: Configuration) -> dict[str, Options]:
    """Give the body's; old files say how often a layer sees everything, and two bases."""
    kinds = c.get("layer_types")
    if kinds is None:
        every = c.get("global_attn_every_n_layers", 3)
        kinds = ["sliding_attention" if i % every else "full_attention" for i in range(c.num_hidden_layers)]
    bases = {"full_attention": c.get("global_rope_theta", 160000.0)}
    bases["sliding_attention"] = c.get("local_rope_theta") or 10000.0
    half = c.local_attention // 2
    layers: list[Options] = [
        {
            "nhead": c.num_attention_heads,
            "dim_feedforward": c.intermediate_size,
            "activation": c.activation("hidden_activation"),
            "gated": True,
            "norm_eps": c.norm_eps,
            "norm_bias": c.norm_bias,
            "placement": "pre",
            "attention_norm": i > 0,
            "bias": c.mlp_bias,
            "qkv_bias": c.attention_bias,
            "out_bias": c.attention_bias,
            "inner_dropout": c.mlp_dropout,
            "attention_dropout": c.attention_dropout,
            "window": (half, half) if kind == "sliding_attention" else None,
            **rotary(c, kind, bases[kind]),
        }
        for i, kind in enumerate(kinds)
    ]
    return {
        "body": {
            "layers": layers,
            "d_model": c.hidden_size,
            "vocab_size": c.vocab_size,
            "pad_id": c.pad_token_id,
            "embedding_norm": "layer",
            "final_norm": "layer",
            "norm_eps": c.norm_eps,
            "norm_bias": c.norm_bias,
            "dropout": c.embedding_dropout,
        }
    }


def head(c: Configuration, outputs: int, **more: Any) -> Options:
    """Give a head: dense, activation, norm, and a last matrix."""
    return {
        "outputs": outputs,
        "inner": c.hidden_size,
        "activation": c.activation("classifier_activation"),
        "inner_bias": c.classifier_bias,
        "norm_eps": c.norm_eps,
        "norm_bias": c.norm_bias,
        **more,
    }


INNER = {"head.dense": "head.dense", "head.norm": "head.norm"}
POOLINGS = {"cls": "first", "mean": "mean"}


DEFAULTS = {
    "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
    "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192,
    "norm_eps": 1e-5, "norm_bias": False, "pad_token_id": 50283, "attention_bias": False,
    "attention_dropout": 0.0, "local_attention": 128, "embedding_dropout": 0.0, "mlp_bias": False,
    "mlp_dropout": 0.0, "decoder_bias": True, "classifier_pooling": "cls", "classifier_dropout": 0.0,
    "classifier_bias": False, "classifier_activation": "gelu", "tie_word_embeddings": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="modernbert",
    kind="encoder",
    classes="ModernBert",
    prefix="model",
    defaults=DEFAULTS,
    allowed={"classifier_pooling": ("cls", "mean")},
    bodies=options,
    names={
        "embedding": "embeddings.tok_embeddings",
        "embedding_norm": "embeddings.norm",
        "layers.{}.norm1": "layers.{}.attn_norm",
        **packed("layers.{}.attn.Wqkv"),
        "layers.{}.self_attn.out_proj": "layers.{}.attn.Wo",
        "layers.{}.norm2": "layers.{}.mlp_norm",
        "layers.{}.linear_gate": Piece("layers.{}.mlp.Wi", 0, 2),
        "layers.{}.linear1": Piece("layers.{}.mlp.Wi", 1, 2),
        "layers.{}.linear2": "layers.{}.mlp.Wo",
        "norm": "final_norm",
    },
    heads={
        "ForMaskedLM": HeadTable(
            lambda c: head(c, c.vocab_size, tied=c.tie_word_embeddings, bias=c.decoder_bias),
            {**INNER, "head.bias": "decoder.bias", "head.output": "decoder"},
        ),
        "ForSequenceClassification": HeadTable(
            lambda c: head(
                c, c.num_labels, pooling=POOLINGS[c.classifier_pooling], dropout=c.classifier_dropout
            ),
            {**INNER, "head.output": "classifier"},
        ),
        "ForTokenClassification": HeadTable(
            lambda c: head(c, c.num_labels, dropout=c.classifier_dropout),
            {**INNER, "head.output": "classifier"},
        ),
    },
)
