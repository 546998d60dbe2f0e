"""RoBERTa: BERT whose positions begin after the number of the padding."""

from __future__ import annotations

from .bert import NAMES, POOLER, body, labels, masked_words
from .bert_config import ALLOWED, DEFAULTS
from .configuration import Configuration
from .table import Architecture, Options, answers


def counted(c: Configuration, padding: int) -> Options:
    """Return the options of a body whose positions count the ids other than padding."""
    return {**body(c), "pad_id": padding, "position_rule": "ids", "position_offset": padding + 1}


ARCHITECTURE = Architecture(
    model_type="roberta",
    kind="encoder",
    classes="Roberta",
    prefix="roberta",
    defaults=DEFAULTS | {"vocab_size": 50265, "pad_token_id": 1},
    allowed=ALLOWED,
    bodies=lambda c: {"body": counted(c, c.pad_token_id)},
    names=NAMES,
    heads={
        "ForMaskedLM": masked_words("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"),
        "ForSequenceClassification": labels("classifier.dense", "classifier.out_proj"),
        "ForTokenClassification": labels(),
        "ForQuestionAnswering": answers(),
    },
    pooler=POOLER,
)
