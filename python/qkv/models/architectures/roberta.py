"""RoBERTa: BERT whose positions begin after the number of the padding."""

from __future__ import annotations

from .bert import DEFAULTS, NAMES, POOLER, body, labels, masked_words
from .configuration import Configuration
from .table import Architecture, Options


def counted(c: Configuration) -> Options:
    """Return the options of a body whose positions count the ids other than padding."""
    return {**body(c), "position_rule": "ids", "position_offset": c.pad_token_id + 1}


ARCHITECTURE = Architecture(
    model_type="roberta",
    kind="encoder",
    classes="Roberta",
    prefix="roberta",
    defaults=DEFAULTS | {"vocab_size": 50265, "pad_token_id": 1},
    allowed={"is_decoder": (False,)},
    bodies=lambda c: {"body": counted(c)},
    names=NAMES,
    heads={
        "ForMaskedLM": masked_words("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
        "ForSequenceClassification": labels("classifier.dense", "classifier.out_proj"),
        "ForTokenClassification": labels(),
    },
    pooler=POOLER,
)
