"""MPNet: RoBERTa without segments, with a relative bias that all layers share."""

from __future__ import annotations

from .bert import NAMES
from .bert_config import DEFAULTS
from .configuration import Configuration
from .roberta import ARCHITECTURE as ROBERTA
from .roberta import counted
from .table import Architecture, Options, projections

PADDING = 1  # with any pad_token_id


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's."""
    bias = {"num_buckets": c.relative_attention_num_buckets, "max_distance": 128, "bidirectional": True}
    return {"body": {**counted(c, PADDING), "type_vocab_size": 0, "relative_bias": bias}}


ARCHITECTURE = Architecture(
    model_type="mpnet",
    kind="encoder",
    classes="MPNet",
    prefix="mpnet",
    defaults={k: v for k, v in DEFAULTS.items() if k not in ("type_vocab_size", "pad_token_id")}
    | {"vocab_size": 30527, "relative_attention_num_buckets": 32},
    bodies=options,
    names={
        **{k: v for k, v in NAMES.items() if k != "type_embedding"},
        "relative_bias": "encoder.relative_attention_bias",
        **projections("layers.{}.self_attn", "encoder.layer.{}.attention.attn.", "qkvo"),
        "layers.{}.norm1": "encoder.layer.{}.attention.LayerNorm",
    },
    heads=ROBERTA.heads,
    pooler=ROBERTA.pooler,
)
