"""MPNet: RoBERTa without segments, with a relative bias that all layers share."""

from __future__ import annotations

from ..architecture import Architecture, Options
from ..configuration import Configuration
from .roberta import ARCHITECTURE as ROBERTA
from .roberta import DEFAULTS, NAMES, counted


def options(c: Configuration) -> dict[str, Options]:
    """Give the body's."""
    bias = {"num_buckets": c.relative_attention_num_buckets, "max_distance": 128, "bidirectional": True}
    return {"body": {**counted(c), "relative_bias": bias}}


SELF = "encoder.layer.{}.attention.attn."

ARCHITECTURE = Architecture(
    model_type="mpnet",
    kind="encoder",
    classes="MPNet",
    prefix="mpnet",
    defaults={k: v for k, v in DEFAULTS.items() if k not in ("type_vocab_size", "is_decoder")}
    | {"vocab_size": 30527, "relative_attention_num_buckets": 32},
    bodies=options,
    names={
        **{k: v for k, v in NAMES.items() if k != "type_embedding"},
        "relative_bias": "encoder.relative_attention_bias",
        "layers.{}.self_attn.q_proj": SELF + "q",
        "layers.{}.self_attn.k_proj": SELF + "k",
        "layers.{}.self_attn.v_proj": SELF + "v",
        "layers.{}.self_attn.out_proj": SELF + "o",
        "layers.{}.norm1": "encoder.layer.{}.attention.LayerNorm",
    },
    heads=ROBERTA.heads,
    pooler=ROBERTA.pooler,
)
