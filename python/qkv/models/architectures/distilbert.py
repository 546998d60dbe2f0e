"""DistilBERT: BERT with half the layers, without segments and pooler."""

from __future__ import annotations

from .bert import labels, masked_words
from .bert_config import NULLS
from .configuration import Configuration
from .table import Architecture, Options, answers, only_body, projections


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's."""
    block = {
        "nhead": c.n_heads,
        "dim_feedforward": c.hidden_dim,
        "activation": c.activation("activation"),
        "norm_eps": 1e-12,
        "placement": "post",
        "dropout": c.dropout,
        "attention_dropout": c.attention_dropout,
    }
    common = {"embedding_norm": "layer", "norm_eps": 1e-12, "dropout": c.dropout}
    places = {"pad_id": c.pad_token_id, "max_positions": c.max_position_embeddings}
    return only_body(c, [block] * c.n_layers, **places, **common)


DEFAULTS = {
    "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6,
    "n_heads": 12, "dim": 768, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1,
    "activation": "gelu", "seq_classif_dropout": 0.2, "qa_dropout": 0.1, "pad_token_id": 0, "tie_word_embeddings": True,
}  # fmt: skip

ARCHITECTURE = Architecture(
    model_type="distilbert",
    kind="encoder",
    classes="DistilBert",
    prefix="distilbert",
    defaults=DEFAULTS,
    nulls=NULLS,
    bodies=options,
    names={
        "embedding": "embeddings.word_embeddings",
        "position_embedding": "embeddings.position_embeddings",
        "embedding_norm": "embeddings.LayerNorm",
        **projections(
            "layers.{}.self_attn", "transformer.layer.{}.attention.", ("q_lin", "k_lin", "v_lin", "out_lin")
        ),
        "layers.{}.norm1": "transformer.layer.{}.sa_layer_norm",
        "layers.{}.linear1": "transformer.layer.{}.ffn.lin1",
        "layers.{}.linear2": "transformer.layer.{}.ffn.lin2",
        "layers.{}.norm2": "transformer.layer.{}.output_layer_norm",
    },
    heads={
        "ForMaskedLM": masked_words(
            "vocab_transform", "vocab_layer_norm", "vocab_projector", activation="activation", norm_eps=1e-12
        ),
        "ForSequenceClassification": labels(
            "pre_classifier", activation="relu", dropout="seq_classif_dropout"
        ),
        "ForTokenClassification": labels(dropout="dropout"),
        "ForQuestionAnswering": answers(dropout="qa_dropout"),
    },
)
