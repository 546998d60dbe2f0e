"""DeBERTa v2 and v3: scores of words and of distances apart (disentangled attention)."""

from __future__ import annotations

from ..._words.errors import shown
from .bert import DEFAULTS, NAMES, NULLS, block, body, labels, masked_words
from .configuration import Configuration
from .table import Architecture, Options, answers, projections


def options(c: Configuration) -> dict[str, Options]:
    """Return the body's; ``pos_att_type`` is a list or a text with bars."""
    kinds = c.get("pos_att_type") or []
    kinds = kinds.split("|") if isinstance(kinds, str) else kinds
    made = body(c)
    if not c.position_biased_input:
        made["max_positions"] = 0
    width = c.hidden_size // c.num_attention_heads
    for name, size in {
        "embedding_size": c.hidden_size,
        "pooler_hidden_size": c.hidden_size,
        "attention_head_size": width,
    }.items():
        if c.get(name, size) != size:
            raise ValueError(f"{name} must be {size} because qkv has no other here; got {shown(c.get(name))}")
    if c.relative_attention:
        if not c.share_att_key and kinds:
            raise ValueError("share_att_key must be True because qkv has no other for deberta-v2; got False")
        longest = c.max_relative_positions if c.max_relative_positions > 0 else c.max_position_embeddings
        span = c.position_buckets if c.position_buckets > 0 else longest
        made["disentangled"] = {
            "span": span,
            "buckets": max(c.position_buckets, 0),
            "max_distance": longest,
            "content_to_position": "c2p" in kinds,
            "position_to_content": "p2c" in kinds,
        }
        made["relative_norm"] = "layer_norm" in c.norm_rel_ebd
    terms = 1 + ("c2p" in kinds) + ("p2c" in kinds)
    scale = (c.hidden_size // c.num_attention_heads * terms) ** -0.5
    return {"body": {**made, "layers": [{**block(c), "scale": scale}] * c.num_hidden_layers}}


MORE = {
    "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24,
    "intermediate_size": 6144, "type_vocab_size": 0, "layer_norm_eps": 1e-7, "relative_attention": False,
    "max_relative_positions": -1, "position_buckets": -1, "position_biased_input": True, "norm_rel_ebd": "none",
    "share_att_key": False, "pooler_dropout": 0.0, "pooler_hidden_act": "gelu",
}  # fmt: skip
PROJECTIONS = ("self.query_proj", "self.key_proj", "self.value_proj", "output.dense")

ARCHITECTURE = Architecture(
    model_type="deberta-v2",
    kind="encoder",
    classes="DebertaV2",
    prefix="deberta",
    defaults=DEFAULTS | MORE,
    allowed={"conv_kernel_size": (0, None), "legacy": (True, None)},
    nulls=NULLS,
    bodies=options,
    names={
        **NAMES,
        **projections("layers.{}.self_attn", "encoder.layer.{}.attention.", PROJECTIONS),
        "relative_embedding": "encoder.rel_embeddings",
        "relative_norm": "encoder.LayerNorm",
    },
    heads={
        "ForMaskedLM": masked_words(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder",
            "cls.predictions.bias",
            activation="hidden_act",
        ),
        "ForSequenceClassification": labels("pooler.dense", entry="pooler_hidden_act", dropout="cls_dropout"),
        "ForTokenClassification": labels(),
        "ForQuestionAnswering": answers(),
    },
)
