"""BART: BERT's blocks as encoder and decoder, learned positions behind an offset of two."""

from __future__ import annotations

from typing import Any

from ..architecture import Architecture, Options
from ..bart_family import NAMES, body, words_head
from ..configuration import Configuration


def options(c: Configuration) -> dict[str, Options]:
    """Give both bodies'."""
    more = {"max_positions": c.max_position_embeddings + 2, "position_offset": 2, "embedding_norm": "layer"}
    return {side: body(c, side, **more) for side in ("encoder", "decoder")}


EMBEDDINGS = {
    f"{own}.{ours}": f"{own}.{theirs}"
    for own in ("encoder", "decoder")
    for ours, theirs in (("position_embedding", "embed_positions"), ("embedding_norm", "layernorm_embedding"))
}
DEFAULTS: dict[str, Any] = {
    "vocab_size": 50265, "max_position_embeddings": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16, "decoder_layers": 12, "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16, "activation_function": "gelu", "d_model": 1024, "dropout": 0.1,
    "attention_dropout": 0.0, "activation_dropout": 0.0, "classifier_dropout": 0.0,
    "scale_embedding": False, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": 2, "is_decoder": False, "tie_word_embeddings": True,
}  # fmt: skip
# Options of old files that no one of the family's block has.
ALLOWED = {
    "is_decoder": (False,),
    "normalize_before": (False, None),
    "add_final_layer_norm": (False, None),
    "normalize_embedding": (True, None),
}

ARCHITECTURE = Architecture(
    model_type="bart",
    kind="encoder-decoder",
    classes="Bart",
    prefix="model",
    defaults=DEFAULTS,
    allowed=ALLOWED,
    bodies=options,
    names=NAMES | EMBEDDINGS,
    heads={"ForConditionalGeneration": words_head()},
)
