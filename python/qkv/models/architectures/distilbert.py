"""DistilBERT: BERT with half the layers, without segments and pooler."""

from __future__ import annotations

from ..architecture import Architecture, HeadTable, Options
from ..configuration import Configuration
from .roberta import TOKENS, labels


def options(c: Configuration) -> dict[str, Options]:
    """Give the body's."""
    block = {
        "nhead": c.n_heads,
        "dim_feedforward": c.hidden_dim,
        "activation": c.activation("activation"),
        "norm_eps": 1e-12,
        "placement": "post",
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
    }
    return {
        "body": {
            "layers": [block] * c.n_layers,
            "d_model": c.dim,
            "vocab_size": c.vocab_size,
            "pad_id": c.pad_token_id,
            "max_positions": c.max_position_embeddings,
            "embedding_norm": "layer",
            "norm_eps": 1e-12,
            "dropout": c.dropout,
        }
    }


# sinusoidal_pos_embds says how positions began.
DEFAULTS = {
    "vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": False, "n_layers": 6,
    "n_heads": 12, "dim": 768, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1,
    "activation": "gelu", "seq_classif_dropout": 0.2, "pad_token_id": 0, "tie_word_embeddings": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="distilbert",
    kind="encoder",
    classes="DistilBert",
    prefix="distilbert",
    defaults=DEFAULTS,
    standard={"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"},
    bodies=options,
    names={
        "embedding": "embeddings.word_embeddings",
        "position_embedding": "embeddings.position_embeddings",
        "embedding_norm": "embeddings.LayerNorm",
        "layers.{}.self_attn.q_proj": "transformer.layer.{}.attention.q_lin",
        "layers.{}.self_attn.k_proj": "transformer.layer.{}.attention.k_lin",
        "layers.{}.self_attn.v_proj": "transformer.layer.{}.attention.v_lin",
        "layers.{}.self_attn.out_proj": "transformer.layer.{}.attention.out_lin",
        "layers.{}.norm1": "transformer.layer.{}.sa_layer_norm",
        "layers.{}.linear1": "transformer.layer.{}.ffn.lin1",
        "layers.{}.linear2": "transformer.layer.{}.ffn.lin2",
        "layers.{}.norm2": "transformer.layer.{}.output_layer_norm",
    },
    heads={
        "ForMaskedLM": HeadTable(
            lambda c: {
                "outputs": c.vocab_size,
                "inner": c.dim,
                "activation": c.activation("activation"),
                "norm_eps": 1e-12,
                "tied": c.tie_word_embeddings,
            },
            {
                "head.dense": "vocab_transform",
                "head.norm": "vocab_layer_norm",
                "head.bias": "vocab_projector.bias",
                "head.output": "vocab_projector",
            },
        ),
        "ForSequenceClassification": HeadTable(
            lambda c: labels(c, inner=True, activation="relu", dropout=c.seq_classif_dropout),
            {"head.dense": "pre_classifier", "head.output": "classifier"},
        ),
        "ForTokenClassification": TOKENS,
    },
)
