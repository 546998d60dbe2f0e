"""DeBERTa v2 and v3: scores of words and of distances apart (disentangled attention)."""

from __future__ import annotations

from dataclasses import replace

from ..._words.errors import shown
from .bert import NAMES, block, body, labels, masked_words
from .bert_config import DEFAULTS, NULLS
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
    first = {}
    kernel, groups, activation = c.conv_kernel_size, c.get("conv_groups", 1), c.get("conv_act")
    if kernel > 0:
        if type(groups) is not int or groups < 1 or c.hidden_size % groups or kernel % 2 == 0:
            raise ValueError(
                "conv_kernel_size must be odd, and conv_groups divide hidden_size; got conv_kernel_size = "
                f"{shown(kernel)}, conv_groups = {shown(groups)}"
            )
        activation = c.activation("conv_act") if activation else "tanh"
        first["convolution"] = {"kernel": kernel, "groups": groups, "activation": activation}
    terms = 1 + ("c2p" in kinds) + ("p2c" in kinds)
    scale = (c.hidden_size // c.num_attention_heads * terms) ** -0.5
    layer = {**block(c), "scale": scale}
    if c.relative_attention and not c.share_att_key:
        own = {"q_proj": "p2c", "k_proj": "c2p"}
        layer["distances"] = tuple(name for name, term in own.items() if term in kinds)
    layers = [{**layer, **(first if i == 0 else {})} for i in range(c.num_hidden_layers)]
    return {"body": {**made, "layers": layers}}


MORE = {
    "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24, "num_attention_heads": 24,
    "intermediate_size": 6144, "type_vocab_size": 0, "layer_norm_eps": 1e-7, "relative_attention": False,
    "max_relative_positions": -1, "position_buckets": -1, "position_biased_input": True, "norm_rel_ebd": "none",
    "share_att_key": False, "conv_kernel_size": 0, "legacy": True, "pooler_dropout": 0.0,
    "pooler_hidden_act": "gelu",
}  # fmt: skip
OLD_WORDS = masked_words(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.decoder",
    "cls.predictions.bias",
    activation="hidden_act",
)
NEW = {f"head.{own}": f"lm_predictions.lm_head.{theirs}" for own, theirs in
       {"dense": "dense", "norm": "LayerNorm", "bias": "bias"}.items()}  # fmt: skip
# New files have their head under other names; its words are the embeddings always.
WORDS = replace(
    OLD_WORDS,
    options=lambda c: {**OLD_WORDS.options(c), **({} if c.legacy else {"tied": True})},
    others=lambda c: {} if c.legacy else NEW,
)
PROJECTIONS = ("self.query_proj", "self.key_proj", "self.value_proj", "output.dense")

ARCHITECTURE = Architecture(
    model_type="deberta-v2",
    kind="encoder",
    classes="DebertaV2",
    prefix="deberta",
    defaults=DEFAULTS | MORE,
    nulls=NULLS,
    bodies=options,
    names={
        **NAMES,
        **projections("layers.{}.self_attn", "encoder.layer.{}.attention.", PROJECTIONS),
        "relative_embedding": "encoder.rel_embeddings",
        "relative_norm": "encoder.LayerNorm",
        "layers.{}.self_attn.q_proj.distances": "encoder.layer.{}.attention.self.pos_query_proj",
        "layers.{}.self_attn.k_proj.distances": "encoder.layer.{}.attention.self.pos_key_proj",
        "layers.{}.conv": "encoder.conv.conv",
        "layers.{}.conv_norm": "encoder.conv.LayerNorm",
    },
    heads={
        "ForMaskedLM": WORDS,
        "ForSequenceClassification": labels("pooler.dense", entry="pooler_hidden_act", dropout="cls_dropout"),
        "ForTokenClassification": labels(),
        "ForQuestionAnswering": answers(),
    },
)
