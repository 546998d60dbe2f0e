"""ViT: BERT's blocks with norms before the sublayers, on patches of an image."""

from __future__ import annotations

from .configuration import Configuration, sizes
from .table import Architecture, HeadTable, Options, projections


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; its inputs are rows of patches."""
    block = {
        **sizes(c),
        "head_dim": c.get("head_dim"),
        "norm_eps": c.layer_norm_eps,
        "qkv_bias": c.qkv_bias,
        "out_bias": True,
        "dropout": c.hidden_dropout_prob,
        "attention_dropout": c.attention_probs_dropout_prob,
    }
    return {
        "body": {
            "layers": [block] * c.num_hidden_layers,
            "d_model": c.hidden_size,
            "final_norm": "layer",
            "norm_eps": c.layer_norm_eps,
            "dropout": c.hidden_dropout_prob,
        }
    }


LAYER = "encoder.layer.{}."


DEFAULTS = {
    "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-12, "image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": True,
    "pooler_act": "tanh", "pooler_output_size": None,
}  # fmt: skip

NAMES: dict[str, str] = {
    "cls_token": "embeddings.cls_token",
    "positions": "embeddings.position_embeddings",
    "patch_weight": "embeddings.patch_embeddings.projection.weight",
    "patch_bias": "embeddings.patch_embeddings.projection.bias",
    "layers.{}.norm1": LAYER + "layernorm_before",
    **projections(
        "layers.{}.self_attn",
        LAYER + "attention.",
        ("attention.query", "attention.key", "attention.value", "output.dense"),
    ),
    "layers.{}.norm2": LAYER + "layernorm_after",
    "layers.{}.linear1": LAYER + "intermediate.dense",
    "layers.{}.linear2": LAYER + "output.dense",
    "norm": "layernorm",
}

ARCHITECTURE = Architecture(
    model_type="vit",
    kind="image",
    classes="ViT",
    prefix="vit",
    defaults=DEFAULTS,
    bodies=options,
    names=NAMES,
    heads={
        "ForImageClassification": HeadTable(
            lambda c: {"outputs": c.num_labels, "pooling": "first"}, {"head.output": "classifier"}
        )
    },
    pooler=HeadTable(
        lambda c: {
            "inner": c.pooler_output_size or c.hidden_size,
            "activation": c.activation("pooler_act"),
            "pooling": "first",
        },
        {"pooler.dense": "pooler.dense"},
    ),
)
