"""ELECTRA: BERT whose embeddings may be narrower, trained to tell which words were replaced."""

from __future__ import annotations

from .bert import NAMES, body, labels, masked_words
from .bert_config import ALLOWED, DEFAULTS, NULLS
from .configuration import Configuration
from .table import Architecture, HeadTable, Options, answers


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; its embeddings have a matrix after them where their width differs."""
    narrow = {} if c.embedding_size == c.hidden_size else {"embedding_size": c.embedding_size}
    return {"body": {**body(c), **narrow}}


ARCHITECTURE = Architecture(
    model_type="electra",
    kind="encoder",
    classes="Electra",
    prefix="electra",
    defaults={
        **DEFAULTS,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "embedding_size": 128,
    },
    allowed=ALLOWED,
    nulls=NULLS,
    bodies=options,
    names={**NAMES, "embedding_projection": "embeddings_project"},
    heads={
        "ForMaskedLM": masked_words(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head",
            width="embedding_size",
        ),
        "ForPreTraining": HeadTable(
            lambda c: {"outputs": 1, "inner": c.hidden_size, "activation": c.activation("hidden_act")},
            {
                "head.dense": "discriminator_predictions.dense",
                "head.output": "discriminator_predictions.dense_prediction",
            },
        ),
        "ForSequenceClassification": labels("classifier.dense", "classifier.out_proj", activation="gelu"),
        "ForTokenClassification": labels(),
        "ForQuestionAnswering": answers(),
    },
)
