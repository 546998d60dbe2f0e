"""ModernBERT: rotary positions, gated feed-forward networks, most layers with a window."""

from __future__ import annotations

from typing import Any

from .configuration import Configuration, layer_types, rotary, sizes
from .table import Architecture, HeadTable, Options, Piece, biases, head_names, only_body, packed

# Where old files have the base of each type of layer.
BASES = {
    "full_attention": ("global_rope_theta", 160000.0),
    "sliding_attention": ("local_rope_theta", 10000.0),
}


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; old files say how often a layer sees everything."""
    every, half = c.get("global_attn_every_n_layers", 3), c.local_attention // 2
    norm = {"norm_eps": c.norm_eps, "norm_bias": c.norm_bias}
    layers: list[Options] = [
        {
            **sizes(c, "hidden_activation"),
            "gated": True,
            **norm,
            "attention_norm": i > 0,
            **biases(c.attention_bias, c.mlp_bias),
            "inner_dropout": c.mlp_dropout,
            "attention_dropout": c.attention_dropout,
            "window": (half, half) if kind == "sliding_attention" else None,
            **rotary(c, kind, c.get(*BASES[kind])),
        }
        for i, kind in enumerate(layer_types(c, lambda i: i % every))
    ]
    more = {"embedding_norm": "layer", "final_norm": "layer", "dropout": c.embedding_dropout, **norm}
    return only_body(c, layers, pad_id=c.pad_token_id, **more)


def head(c: Configuration, outputs: int, **more: Any) -> Options:
    """Return a head: dense, activation, norm, and a last matrix."""
    activation = c.activation("classifier_activation")
    inner = {"inner": c.hidden_size, "inner_bias": c.classifier_bias, "activation": activation}
    return {"outputs": outputs, **inner, "norm_eps": c.norm_eps, "norm_bias": c.norm_bias, **more}


def classes(c: Configuration, pooling: str = "") -> Options:
    """Return the scores of classes."""
    return head(c, c.num_labels, dropout=c.classifier_dropout, pooling=pooling)


CLASSES, WORDS = (head_names(last, "head.dense", "head.norm") for last in ("classifier", "decoder"))
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
    nulls={"pad_token_id": None},
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
            WORDS,
        ),
        "ForSequenceClassification": HeadTable(
            lambda c: classes(c, c.classifier_pooling.replace("cls", "first")), CLASSES
        ),
        "ForTokenClassification": HeadTable(classes, CLASSES),
        "ForQuestionAnswering": HeadTable(
            lambda c: head(c, 2, dropout=c.classifier_dropout), CLASSES, answers=True
        ),
    },
)
