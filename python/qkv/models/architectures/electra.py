"""ELECTRA: BERT whose embeddings may be narrower, trained to tell which words were replaced."""

from __future__ import annotations

from ..architecture import Architecture, HeadTable, Options
from ..configuration import Configuration
from .roberta import DEFAULTS, NAMES, TOKENS, body, labels, words


def options(c: Configuration) -> dict[str, Options]:
    """Give the body's; its embeddings have a matrix behind them where their width differs."""
    narrow = {} if c.embedding_size == c.hidden_size else {"embedding_size": c.embedding_size}
    return {"body": {**body(c), **narrow}}


ARCHITECTURE = Architecture(
    model_type="electra",
    kind="encoder",
    classes="Electra",
    prefix="electra",
    defaults={
        **DEFAULTS,
        "vocab_size": 30522,
        "pad_token_id": 0,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "embedding_size": 128,
    },
    allowed={"is_decoder": (False,)},
    bodies=options,
    names={**NAMES, "embedding_projection": "embeddings_project"},
    heads={
        "ForMaskedLM": HeadTable(
            lambda c: words(c, c.embedding_size),
            {
                "head.dense": "generator_predictions.dense",
                "head.norm": "generator_predictions.LayerNorm",
                "head.bias": "generator_lm_head.bias",
                "head.output": "generator_lm_head",
            },
        ),
        "ForPreTraining": HeadTable(
            lambda c: {"outputs": 1, "inner": c.hidden_size, "activation": c.activation("hidden_act")},
            {
                "head.dense": "discriminator_predictions.dense",
                "head.output": "discriminator_predictions.dense_prediction",
            },
        ),
        "ForSequenceClassification": HeadTable(
            lambda c: labels(c, inner=True, activation="gelu"),
            {"head.dense": "classifier.dense", "head.output": "classifier.out_proj"},
        ),
        "ForTokenClassification": TOKENS,
    },
)
